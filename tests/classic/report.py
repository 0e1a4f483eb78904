#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""report.py results PREFIX LOG | table LOG...

results: the cases of a log of the suites, as the lines of a VM suite.
table: the 59 calls of the classic sheet with what the logs show of each. A call
passes when all of its cases do; what its cases skipped, and why, is told.
Exit status 1 when a case failed or a call has none.
"""
import os
import re
import sys

CALLS = """ib_register_client ib_unregister_client ib_set_client_data ib_get_client_data
ib_register_event_handler ib_unregister_event_handler ib_query_device ib_query_port
rdma_port_get_link_layer ib_query_gid ib_query_pkey ib_find_gid ib_find_pkey
ib_alloc_pd ib_dealloc_pd ib_create_ah ib_init_ah_from_wc ib_create_ah_from_wc
ib_modify_ah ib_query_ah ib_destroy_ah ib_dma_mapping_error ib_dma_map_single
ib_dma_unmap_single ib_dma_map_page ib_dma_unmap_page ib_dma_map_sg ib_dma_unmap_sg
ib_dma_sync_single_for_cpu ib_dma_sync_single_for_device ib_dma_alloc_coherent
ib_dma_free_coherent ib_get_dma_mr ib_reg_phys_mr ib_rereg_phys_mr ib_query_mr
ib_dereg_mr ib_alloc_mw ib_bind_mw ib_dealloc_mw ib_create_cq ib_resize_cq
ib_modify_cq ib_peek_cq ib_req_notify_cq ib_poll_cq ib_create_srq ib_modify_srq
ib_query_srq ib_destroy_srq ib_create_qp ib_modify_qp ib_query_qp ib_destroy_qp
ib_post_send ib_post_recv ib_post_srq_recv ib_attach_mcast ib_detach_mcast""".split()


def parse(text):
    """[(status, case, detail)] in the order of the log."""
    found, failed = [], {}
    for line in text.splitlines():
        line = re.sub(r"^\[ *\d+\.\d+\]", "", line)
        m = re.match(r"\s+# (\w+): (failed at .*|.*EXPECTATION.*|.*ASSERTION.*)$", line)
        if m:
            failed.setdefault(m[1], m[2])
        m = re.match(r"\s{4,5}(not )?ok \d+ ([rx]\d\d_\w+)(?: # SKIP ?(.*))?$", line)
        if m:
            status = "FAIL" if m[1] else "SKIP" if m[3] is not None else "PASS"
            found.append((status, m[2], failed.get(m[2], "") if m[1] else m[3] or ""))
    return found


def plan(text):
    """Number of cases that the log announced."""
    return sum(int(n) for n in re.findall(r"^(?:\[ *\d+\.\d+\])?\s{4,5}1\.\.(\d+)$", text, re.M))


def results(prefix, text):
    cases = parse(text)
    for status, name, detail in cases:
        print(f"{status} {prefix}:{name} {detail}")
    if not cases or plan(text) != len(cases):
        print(f"FAIL {prefix}:all {len(cases)} results for {plan(text)} cases")
        return 1
    return int(any(s == "FAIL" for s, _, _ in cases))


def table(texts):
    rows = {}
    for text in texts:
        for status, name, detail in parse(text):
            if name[0] == "r":
                rows.setdefault(int(name[1:3]), []).append((status, name, detail))
    bad = 0
    for number, call in enumerate(CALLS, 1):
        cases = rows.get(number, [])
        failed = [f"{n}: {d}" for s, n, d in cases if s == "FAIL"]
        skipped = sorted({f"{n[4:]}: {d}" for s, n, d in cases if s == "SKIP"})
        passed = sum(s == "PASS" for s, _, _ in cases)
        if failed or not cases:
            verdict, why = "FAIL", "; ".join(failed) or "no case"
            bad = 1
        elif not passed:
            verdict, why = "skip", "; ".join(skipped)
        else:
            verdict, why = "pass", f"{passed} cases" + (f"; not {'; '.join(skipped)}" if skipped else "")
        print(f"{number:2} {call:30} {verdict} {why}")
    return bad


def read(path):
    with open(path, errors="replace") as f:
        return f.read().replace("\r", "")


def main(argv):
    assert len(CALLS) == 59
    if argv[:1] == ["results"] and len(argv) == 3:
        return results(argv[1], read(argv[2]))
    if argv[:1] == ["table"] and len(argv) > 1:
        return table([read(p) for p in argv[1:] if os.path.exists(p)])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
