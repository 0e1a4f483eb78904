#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""leaks.py save FILE | compare FILE ROUNDS: kernel memory before and after.

A cache that has grown by at least half an object a round is reported. The
per-CPU and partial lists are flushed first (shrink), so that what is counted
is in use. A CPU that then allocates one object takes a sheaf of them, up to 60,
which counts as used: so this runs on one CPU, and the least of some counts is taken.
"""
import glob
import json
import os
import sys
import time


SAMPLES = 4


def measure():
    os.sched_setaffinity(0, {0})
    samples = [sample() for _ in range(SAMPLES)]
    return {key: min(one[key] for one in samples if key in one) for key in samples[-1]}


def sample():
    for _ in range(2):
        for path in glob.glob("/sys/kernel/slab/*/shrink"):
            if not os.path.islink(os.path.dirname(path)):
                try:
                    with open(path, "w") as f:
                        f.write("1")
                except OSError:
                    pass
        time.sleep(1)
    found = {}
    with open("/proc/slabinfo") as f:
        for line in f:
            words = line.split()
            if len(words) > 5 and words[1].isdigit():
                found["slab " + words[0]] = int(words[1])
    with open("/proc/modules") as f:
        for line in f:
            words = line.split()
            found["module " + words[0]] = int(words[2])
    with open("/proc/meminfo") as f:
        for line in f:
            if line.startswith(("VmallocUsed", "Percpu")):
                found["meminfo " + line.split(":")[0]] = int(line.split()[1])
    return found


# Grow on their own, with what the tests themselves do.
IGNORED = {"slab " + n for n in (
    "dentry", "inode_cache", "proc_inode_cache", "ovl_inode", "v9fs_inode_cache", "9p-fcall-cache", "erofs_inode",
    "filp", "vm_area_struct", "maple_node", "anon_vma", "anon_vma_chain", "pid", "task_struct", "cred", "cred_jar",
    "buffer_head", "radix_tree_node", "kernfs_node_cache", "kernfs_iattrs_cache", "lsm_inode_cache", "lsm_file_cache",
    "sighand_cache", "signal_cache", "files_cache", "mm_struct", "fs_cache", "shmem_inode_cache", "sock_inode_cache",
    "skbuff_head_cache", "skbuff_small_head", "vmap_area", "debug_objects_cache", "names_cache", "seq_file", "mnt_cache",
    "ep_head", "trace_event_file", "ftrace_event_field", "page->ptl", "pde_opener", "bio-184", "bio-248", "biovec-max")}


def main():
    now = measure()
    if sys.argv[1] == "save":
        with open(sys.argv[2], "w") as f:
            json.dump(now, f)
        return 0
    with open(sys.argv[2]) as f:
        before = json.load(f)
    rounds = int(sys.argv[3])
    bad = 0
    for key in sorted(now):
        grown = now[key] - before.get(key, 0)
        kind = key.split()[0]
        limit = {"slab": rounds / 2, "module": 1, "meminfo": 4 * rounds}[kind]
        if grown >= limit and key not in IGNORED:
            print(f"{key}: {before.get(key, 0)} -> {now[key]}")
            bad += 1
        elif grown and kind != "module":
            print(f"# {key}: {before.get(key, 0)} -> {now[key]}")
    if bad:
        print(f"{bad} counts have grown with the {rounds} rounds")
    return 1 if bad else 0


sys.exit(main())
