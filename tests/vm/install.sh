#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kernels: stock
# timeout: 900
# cores: rust
# make install and make uninstall, on a machine that runs the kernel they are for.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"

krel=$(uname -r)
t module-there "test -e build/$krel/ib_core.ko"
from() { # kernel|updates: which ib_core modprobe takes
	case $(modinfo -n ib_core) in */$krel/$1/*) ;; *) modinfo -n ib_core; return 1 ;; esac
}
loaded() { # kernel|updates: the module in memory is that file's
	cmp <(cat /sys/module/ib_core/notes/.note.gnu.build-id) \
		<(objcopy -O binary -j .note.gnu.build-id "$(find /lib/modules/$krel/$1 -name 'ib_core.ko*' | head -n 1)" /dev/stdout)
}
traffic() {
	rig_dummy && { ibv_rc_pingpong -d rxe0 -g 1 -n 100 > /dev/null & } && sleep 2 &&
		ibv_rc_pingpong -d rxe0 -g 1 -n 100 10.9.0.1 && wait
}
leave() { remove_links; unload_stack; }
defs="$(declare -f from loaded traffic leave rig_dummy load_stack wait_gid remove_links unload_stack); krel=$krel stack_modules='$stack_modules'"

# The VM comes with the module in place: begin as a machine without it does.
t uninstall -T 300 "$defs; scripts/uninstall && from kernel && ! [ -e /lib/modules/$krel/updates/ib_core.ko ]"
t uninstall-twice -T 300 "$defs; scripts/uninstall && from kernel"
t c-core "$defs; traffic && loaded kernel"
t install -T 300 "$defs; scripts/install && from updates"
t says-how-to-go-on -T 300 "scripts/install 2>&1 | grep 'unload the RDMA stack or boot again'"
t install-keeps-running "$defs; loaded kernel"
t rust-core "$defs; leave && traffic && loaded updates"
t back -T 300 "$defs; leave && scripts/uninstall && from kernel && traffic && loaded kernel"
t refuses-other-kernel "printf '#!/bin/sh\necho 6.12.1-amd64\n' > /tmp/uname && chmod +x /tmp/uname &&
	! PATH=/tmp:\$PATH scripts/install 2> /tmp/msg && cat /tmp/msg && grep 'this kernel is 6.12.1-amd64, the modules are for $krel only' /tmp/msg &&
	! [ -e /lib/modules/$krel/updates/ib_core.ko ]"
t refuses-user "! setpriv --reuid 65534 --clear-groups scripts/install 2> /tmp/msg2 && grep 'needs root' /tmp/msg2"
finish
