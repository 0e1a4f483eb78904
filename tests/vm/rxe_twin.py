#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rxe_twin.py RDMA_RXE.KO TWIN.KO: a copy that one kernel can load beside the C driver: module rdma_rxr,
link type rxr. For tests in which the two drivers talk to each other.

Of names only one letter is changed, so nothing moves.
"""
import struct
import sys


def sections(image):
    """{name: (offset, size)} of a 64-bit ELF file."""
    table, = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * size) for i in range(count)]
    strings = heads[names][4]
    return {image[strings + h[0]:image.index(b"\0", strings + h[0])].decode(): (h[4], h[5]) for h in heads}


def main():
    with open(sys.argv[1], "rb") as f:
        image = bytearray(f.read())
    where = sections(image)
    for section, old, new in ((".gnu.linkonce.this_module", b"rdma_rxe\0", b"rdma_rxr\0"),
                              (".modinfo", b"\0name=rdma_rxe\0", b"\0name=rdma_rxr\0"),
                              (".rodata", b"\0rxe\0", b"\0rxr\0")):
        start, size = where[section]
        found = image.count(old, start, start + size)
        if found != 1:
            sys.exit(f"{section} has {old} {found} times")
        at = image.index(old, start)
        image[at:at + len(old)] = new
    with open(sys.argv[2], "wb") as f:
        f.write(image)


main()
