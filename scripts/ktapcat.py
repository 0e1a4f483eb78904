#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""ktapcat.py FILE...: joins results files of KUnit's debugfs, one suite each, into one KTAP
document, as the kernel's kunit.py reads no more than the first plan of its input."""
import re
import sys


def join(texts):
    """The lines of the joined document."""
    yield "KTAP version 1"
    yield f"1..{len(texts)}"
    for number, text in enumerate(texts, 1):
        for line in text.splitlines():
            line = line.rstrip()
            if line and not re.match(r"(KTAP version \d+|\d+\.\.\d+)$", line):
                yield re.sub(r"^(not ok|ok) \d+", rf"\1 {number}", line)


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


if __name__ == "__main__":
    print("\n".join(join([read(p) for p in sys.argv[1:]])))
