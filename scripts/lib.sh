# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh disable=SC2034
# Paths and small helpers, sourced by the scripts. Sets:
#   top        the checkout              cache      the caches outside of it
#   krel       the kernel's release      rootfs     trixie: toolchain and userland
#   tree       holds linux-source/ and build/ (appears as /kernel in the rootfs)
#   image      vmlinuz, config and lib/modules of the distribution's kernel
#   vmroot     the VM's root file system moddir     where the build leaves *.ko
#   emulator   trixie's QEMU with its libraries
#   debug      the debug kernel: vmlinuz, root/lib/modules, build/ (/debug in the rootfs)
#   dkrel      its release               dmoddir    where the build for it leaves *.ko
#   intree     build directory of scripts/intree

top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cache=${CACHE_DIR:-${HOME:-/root}/.cache/ib-core-rust}

# shellcheck source=scripts/kernel.conf
. "$top/scripts/kernel.conf"

say() { printf '%s\n' "$*" >&2; }
die() { say "${0##*/}: $*"; exit 1; }

need_root() {
	[ "$(id -u)" = 0 ] || die "needs root: run it as root or with sudo"
}

# The release in use: the pinned one, or what setup found in its place.
krel=$KERNEL_RELEASE
if [ -s "$cache/instead-of-$KERNEL_RELEASE" ]; then
	read -r krel < "$cache/instead-of-$KERNEL_RELEASE"
fi

# A change of these inputs makes a new folder; old ones are never modified.
rootfs_key=$( { printf '1 %s\n' "$DEBIAN_SUITE"
		grep -v '^#' "$top/scripts/rootfs.packages"; } |
	sha256sum | cut -c1-10)
rootfs=$cache/rootfs-$rootfs_key
tree=$cache/tree-$krel-$rootfs_key
image=$cache/image-$krel
vmroot_key=$( { echo "$rootfs_key"; cat "$top/scripts/mkvmroot" "$top/scripts/vm-init"; } |
	sha256sum | cut -c1-10)
vmroot=$cache/vmroot-$krel-$vmroot_key.erofs
emulator_packages=qemu-system-x86
emulator=$cache/qemu-$(printf '1 %s %s\n' "$DEBIAN_SUITE" "$emulator_packages" | sha256sum | cut -c1-10)
moddir=$top/build/$krel

debug_fragments="$top/tests/kernel/base.config $top/tests/kernel/x86.config $top/tests/kernel/debug.config"
# shellcheck disable=SC2086 # a list
debug_key=$( { echo "1 $rootfs_key"; cat $debug_fragments; } | sha256sum | cut -c1-10)
debug=$cache/debug-$krel-$debug_key
dkrel=${krel%%+*}-debug
dmoddir=$top/build/$dkrel

# The configuration is no part of the name: kbuild goes on from what is there.
intree=$cache/intree-$krel-$rootfs_key
