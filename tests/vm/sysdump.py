#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""sysdump.py DIR...: every node below DIR with its mode and content or error."""
import errno
import os
import re
import sys

VOLATILE = re.compile(r"/(power/|uevent$|sections/|notes/|refcnt$|initsize$|coresize$|srcversion$|taint$)")


def content(path):
    try:
        with open(path, "rb") as f:
            data = f.read(65536)
    except OSError as err:
        return f"!{errno.errorcode.get(err.errno, err.errno)}"
    return data.decode(errors="backslashreplace").rstrip("\n").replace("\n", "|")


for top in sys.argv[1:]:
    for path, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(dirs + files):
            node = os.path.join(path, name)
            st = os.lstat(node)
            mode = f"{st.st_mode & 0o777:03o}"
            if os.path.islink(node):
                print(f"L {node} -> {os.readlink(node)}")
            elif os.path.isdir(node):
                print(f"D {mode} {node}")
            elif VOLATILE.search(node) or not st.st_mode & 0o444:
                print(f"F {mode} {node}")
            else:
                print(f"F {mode} {node}: {content(node)}")
