#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# qp_state.sh [KERNEL_TREE]: compares the QP state table with that of the kernel tree's C core:
# every cell (state, state, type) and, through the functions, a million random requests. Needs
# only a C and a Rust compiler; CC and RUSTC name others. Run it with scripts/in-rootfs.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
tree=${1:-/kernel/linux-source-7.3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The enumerations and the table of the C side, as they are.
{
	printf '#include <stdbool.h>\n#include <stdio.h>\n#include <stdint.h>\n'
	printf '#define GENMASK(h, l) ((2u << (h)) - (1u << (l)))\n'
	printf '#define IB_UVERBS_QPT_RC 2\n#define IB_UVERBS_QPT_UC 3\n#define IB_UVERBS_QPT_UD 4\n'
	printf '#define IB_UVERBS_QPT_RAW_PACKET 8\n#define IB_UVERBS_QPT_XRC_INI 9\n'
	printf '#define IB_UVERBS_QPT_XRC_TGT 10\n#define IB_UVERBS_QPT_DRIVER 0xff\n'
	for e in ib_qp_type ib_qp_attr_mask ib_qp_state; do
		sed -n "/^enum $e {/,/^};/p" "$tree/include/rdma/ib_verbs.h"
	done
	awk '/^static const struct {/ { text = "" } { text = text $0 "\n" }
		/^EXPORT_SYMBOL\(ib_modify_qp_is_ok\)/ { exit }
		END { printf "%s", text }' "$tree/drivers/infiniband/core/verbs.c" |
		grep -v '^EXPORT_SYMBOL'
} > "$dir/table.h"

cat > "$dir/c.c" <<'EOF'
#include "table.h"
static uint64_t seed = 1;
static uint32_t next(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 33;
}
int main(void)
{
	for (unsigned int f = 0; f <= IB_QPS_ERR; f++)
		for (unsigned int t = 0; t <= IB_QPS_ERR; t++)
			for (unsigned int q = 0; q < IB_QPT_MAX; q++)
				printf("%u %u %u %d %x %x\n", f, t, q, qp_state_table[f][t].valid,
				       qp_state_table[f][t].req_param[q],
				       qp_state_table[f][t].opt_param[q]);
	for (int i = 0; i < 1000000; i++) {
		unsigned int f = next() % 7, t = next() % 7, q = next() % IB_QPT_MAX;
		/* Mostly what a transition takes, else nearly all would be refused. */
		unsigned int m = qp_state_table[f][t].req_param[q] |
				 (qp_state_table[f][t].opt_param[q] & next());
		if (next() % 2)
			m ^= 1u << next() % 26;
		printf("%d\n", ib_modify_qp_is_ok(f, t, q, m));
	}
}
EOF

cat > "$dir/rust.rs" <<EOF
#![allow(dead_code)]
#[path = "$top/drivers/infiniband/core/verbs/qp_state.rs"]
mod qp_state;
use qp_state::{attributes, may_modify, Attrs, State};
use std::fmt::Write;
struct Random(u64);
impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }
}
fn cell(f: u32, t: u32, q: u32) -> (i32, u32, u32) {
    let (f, t) = (State::from_raw(f).unwrap(), State::from_raw(t).unwrap());
    attributes(f, t, q).map_or((0, 0, 0), |(Attrs(need), Attrs(may))| (1, need, may))
}
fn main() {
    let mut out = String::new();
    for f in 0..7 {
        for t in 0..7 {
            for q in 0..11 {
                let (valid, need, may) = cell(f, t, q);
                writeln!(out, "{f} {t} {q} {valid} {need:x} {may:x}").unwrap();
            }
        }
    }
    let mut r = Random(1);
    for _ in 0..1000000 {
        let (f, t, q) = (r.next() % 7, r.next() % 7, r.next() % 11);
        let (_, need, may) = cell(f, t, q);
        let mut m = need | (may & r.next());
        if r.next() % 2 != 0 {
            m ^= 1 << (r.next() % 26);
        }
        writeln!(out, "{}", may_modify(f, t, q, Attrs(m)) as i32).unwrap();
    }
    print!("{out}");
}
EOF

${CC:-cc} -w -O1 -fwrapv -I "$dir" -o "$dir/c" "$dir/c.c"
${RUSTC:-rustc} --edition 2021 -O -o "$dir/rust" "$dir/rust.rs"
"$dir/c" > "$dir/c.txt"
"$dir/rust" > "$dir/rust.txt"
cmp "$dir/c.txt" "$dir/rust.txt"
echo "qp_state: $(grep -c ' ' "$dir/rust.txt") cells and $(grep -vc ' ' "$dir/rust.txt") requests agree, $(grep -xc 1 "$dir/rust.txt") of them allowed"
