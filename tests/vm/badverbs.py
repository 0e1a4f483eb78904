#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""badverbs.py NODE: hostile uverbs write() and ioctl() calls, one line of
result each. The lines are compared between the cores.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import random
import struct
import sys

NODE = sys.argv[1]
BAD_POINTERS = (("null", 0), ("low", 1), ("kernel", 0xFFFF888000000000), ("top", 0xFFFFFFFFFFFFFFFF),
                ("noncanonical", 0x8000000000000000))
(GET_CONTEXT, QUERY_DEVICE, QUERY_PORT, ALLOC_PD, DEALLOC_PD, CREATE_AH) = range(6)
DESTROY_AH, REG_MR, REREG_MR, DEREG_MR, ALLOC_MW, DEALLOC_MW = 8, 9, 11, 13, 14, 16
CHANNEL, CREATE_CQ, RESIZE_CQ, DESTROY_CQ, POLL_CQ, REQ_NOTIFY = 17, 18, 19, 20, 21, 23
CREATE_QP, QUERY_QP, MODIFY_QP, DESTROY_QP, POST_SEND, POST_RECV = 24, 25, 26, 27, 28, 29
ATTACH, DETACH, CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ, DESTROY_SRQ = 30, 31, 32, 33, 34, 35
EX = 0x80000000
IOCTL = 3 << 30 | 24 << 16 | 0x1B << 8 | 1


def name(err):
    return errno.errorcode.get(err.errno, str(err.errno))


class Verbs:
    def __init__(self, context=True):
        self.fd = os.open(NODE, os.O_RDWR | os.O_CLOEXEC)
        self.resp = ctypes.create_string_buffer(1024)
        self.rp = ctypes.addressof(self.resp)
        if context:
            self.write(GET_CONTEXT, struct.pack("=Q", self.rp), 8)

    def close(self):
        os.close(self.fd)

    def write(self, cmd, body, out, in_words=None, out_words=None, cut=None):
        """Response bytes; raises OSError. The lengths can be made wrong."""
        data = struct.pack("=IHH", cmd, (8 + len(body)) // 4 if in_words is None else in_words,
                           out // 4 if out_words is None else out_words) + body
        ctypes.memset(self.rp, 0, 1024)
        n = os.write(self.fd, data if cut is None else data[:cut])
        if n != (len(data) if cut is None else cut):
            raise OSError(0, f"wrote {n}")
        return self.resp.raw[:out]

    def ex(self, cmd, body, out, provider_in=b"", provider_out=0, reserved=0, response=None, **kw):
        head = struct.pack("=QHHI", self.rp if response is None else response, len(provider_in) // 8, provider_out // 8, reserved)
        in_words = kw.pop("in_words", len(body) // 8)
        data = struct.pack("=IHH", EX | cmd, in_words, kw.pop("out_words", out // 8)) + head + body + provider_in
        os.write(self.fd, data)
        return self.resp.raw[:out]

    def ioctl(self, obj, method, attrs=(), length=None, num=None, reserved1=0, reserved2=0, driver=14, tail=b""):
        body = b"".join(struct.pack("=HHHHQ", *a) for a in attrs) + tail
        n = len(attrs) if num is None else num
        data = struct.pack("=HHHHQII", 24 + len(body) if length is None else length, obj, method, n, reserved1, driver, reserved2) + body
        buf = bytearray(data)
        fcntl.ioctl(self.fd, IOCTL, buf)
        return bytes(buf)


def try_(label, fn, *args, **kw):
    try:
        r = fn(*args, **kw)
        print(f"{label}: OK" + ("" if not isinstance(r, int) else f" {r}"))
        return r
    except OSError as err:
        print(f"{label}: {name(err)}")
    return None


P = lambda *a: struct.pack("=" + a[0], *a[1:])

# --- write(): headers, before there is a context and after ------------------
for context in (False, True):
    tag = "ctx" if context else "noctx"
    for cmd in list(range(0, 44)) + [63, 255]:
        v = Verbs(context)
        if not (cmd == GET_CONTEXT and not context):
            try_(f"{tag} cmd {cmd} zeros", v.write, cmd, b"\0" * 96, 0)
        try_(f"{tag} cmd {cmd} empty", v.write, cmd, b"", 0)
        try_(f"{tag} cmd {cmd} short", v.write, cmd, b"\0" * 4, 4)
        try_(f"{tag} cmd {cmd} in_words-past-end", v.write, cmd, b"\0" * 64, 64, in_words=0xFFFF)
        try_(f"{tag} cmd {cmd} in_words-0", v.write, cmd, b"\0" * 64, 64, in_words=0)
        try_(f"{tag} cmd {cmd} cut", v.write, cmd, b"\0" * 64, 64, cut=40)
        try_(f"{tag} ex {cmd} zeros", v.ex, cmd, b"\0" * 96, 64)
        try_(f"{tag} ex {cmd} empty", v.ex, cmd, b"", 0)
        try_(f"{tag} ex {cmd} reserved", v.ex, cmd, b"\0" * 64, 64, reserved=1)
        try_(f"{tag} ex {cmd} in_words-past-end", v.ex, cmd, b"\0" * 64, 64, in_words=0xFFFF)
        v.close()
v = Verbs()
try_("header-cut", os.write, v.fd, b"\0" * 7)
try_("write-empty", os.write, v.fd, b"")
try_("unknown-flags", v.write, 0x40000000 | QUERY_DEVICE, b"\0" * 64, 64)
try_("context-twice", v.write, GET_CONTEXT, P("Q", v.rp), 8)
for what, ptr in BAD_POINTERS:
    w = Verbs(False)
    try_(f"context-response-{what}", w.write, GET_CONTEXT, P("Q", ptr), 8)
    w.close()
    for cmd, body, out in ((QUERY_DEVICE, P("Q", ptr), 184), (QUERY_PORT, P("QBBHI", ptr, 1, 0, 0, 0), 48),
                           (ALLOC_PD, P("Q", ptr), 4), (CHANNEL, P("Q", ptr), 4)):
        try_(f"cmd {cmd} response-{what}", v.write, cmd, body, out)

# --- values -----------------------------------------------------------------
for port in (0, 2, 255):
    try_(f"query-port-{port}", v.write, QUERY_PORT, P("QBBHI", v.rp, port, 0, 0, 0), 48)
pd = struct.unpack_from("=I", v.write(ALLOC_PD, P("Q", v.rp), 4))[0]
for handle in (0xFFFFFFFF, 0x80000000, 77):
    for cmd in (DEALLOC_PD, DEREG_MR, DEALLOC_MW, DESTROY_AH):
        try_(f"destroy {cmd} handle {handle:x}", v.write, cmd, P("I", handle), 0)
    for cmd, size in ((DESTROY_CQ, 8), (DESTROY_QP, 8), (DESTROY_SRQ, 8)):
        try_(f"destroy {cmd} handle {handle:x}", v.write, cmd, P("QII", v.rp, handle, 0), size)
buf = mmap.mmap(-1, 1 << 16)
addr = ctypes.addressof(ctypes.c_char.from_buffer(buf))


def reg(label, start, length, va=None, access=1, handle=None):
    r = try_(f"reg-mr-{label}", v.write, REG_MR, P("QQQQII", v.rp, start, length, start if va is None else va, pd if handle is None else handle, access), 12)
    if r:
        v.write(DEREG_MR, P("I", struct.unpack_from("=I", r)[0]), 0)


reg("good", addr, 4096)
reg("zero-length", addr, 0)
reg("huge", addr, 1 << 62)
reg("max", addr, 0xFFFFFFFFFFFFFFFF)
reg("wraps", 0xFFFFFFFFFFFFF000, 0x2000)
reg("wraps-to-zero", 0xFFFFFFFFFFFFF000, 0x1000)
reg("last-byte", addr + (1 << 16) - 1, 1)
reg("past-end", addr + (1 << 16) - 1, 4096 * 1024)
reg("null", 0, 4096)
reg("kernel", 0xFFFF888000000000, 4096)
reg("va-offset-differs", addr, 4096, va=addr + 1)
reg("va-wraps", addr, 8192, va=0xFFFFFFFFFFFFF000)
reg("remote-write-without-local", addr, 4096, access=2)
reg("atomic-without-local", addr, 4096, access=8)
reg("pd-bad", addr, 4096, handle=0x7777)
for bit in range(32):
    reg(f"access-bit-{bit}", addr, 4096, access=1 << bit | 1)
ro = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)


def create_cq(label, cqe, vector=0, channel=-1, comp_mask=0, reserved=0, out=24):
    r = try_(f"create-cq-{label}", v.write, CREATE_CQ, P("QQIIiI", v.rp, 7, cqe, vector, channel, reserved), out)
    return struct.unpack_from("=I", r)[0] if r else None


for label, cqe in (("0", 0), ("1", 1), ("max", 0xFFFFFFFF), ("2^31", 1 << 31), ("32767", 32767), ("32768", 32768), ("2^20", 1 << 20)):
    create_cq(f"cqe-{label}", cqe)
for vector in (1, 2, 255, 0x80000000, 0xFFFFFFFF):
    create_cq(f"vector-{vector:x}", 16, vector)
for channel in (0, 1, 9999, 0x7FFFFFFF, -2):
    create_cq(f"channel-{channel}", 16, channel=channel)
create_cq("channel-is-uverbs", 16, channel=v.fd)
create_cq("short-response", 16, out=4)
cq = create_cq("good", 16)
for cqe in (0, 1, 8, 0x7FFFFFFF, 0xFFFFFFFF):
    try_(f"resize-cq-{cqe:x}", v.write, RESIZE_CQ, P("QII", v.rp, cq, cqe), 24)
try_("req-notify-bad", v.write, REQ_NOTIFY, P("II", 0x7777, 0), 0)
try_("poll-cq-huge", v.write, POLL_CQ, P("QII", v.rp, cq, 0xFFFFFFFF), 16)
try_("poll-cq-no-room", v.write, POLL_CQ, P("QII", v.rp, cq, 4), 8)


def create_qp(label, swr=8, rwr=8, ssge=1, rsge=1, inline=0, kind=2, srq=0, has_srq=0, scq=None, rcq=None, handle=None, out=88, sig=0, reserved=0):
    r = try_(f"create-qp-{label}", v.write, CREATE_QP,
             P("QQIIIIIIIIIBBBB", v.rp, 9, pd if handle is None else handle, cq if scq is None else scq, cq if rcq is None else rcq,
               srq, swr, rwr, ssge, rsge, inline, sig, kind, has_srq, reserved), out)
    return struct.unpack_from("=II", r) if r else (None, None)


for field in ("swr", "rwr", "ssge", "rsge", "inline"):
    for value in (0, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF):
        create_qp(f"{field}-{value:x}", **{field: value})
for kind in list(range(0, 12)) + [255]:
    create_qp(f"type-{kind}", kind=kind)
create_qp("pd-bad", handle=0x7777)
create_qp("scq-bad", scq=0x7777)
create_qp("rcq-bad", rcq=0x7777)
create_qp("srq-bad", srq=0x7777, has_srq=1)
create_qp("short-response", out=8)
qp, qpn = create_qp("good")
# ib_uverbs_modify_qp: dest, alt_dest (32 bytes each), handle, mask, ...
for mask in [0, 1, 0xFFFFFFFF, 1 << 31] + [1 << b for b in range(27)] + [0x39, 0x1 | 1 << 20]:
    for state in (0, 1, 3, 6, 7, 255):
        body = b"\0" * 64 + P("IIIIIII", qp, mask, 0, 0, 0, 0, 0) + P("HHBBBBBBBBBBBBBBBBBH", 0, 0, state, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        body += b"\0" * (112 - len(body))
        try_(f"modify-qp mask {mask:x} state {state}", v.write, MODIFY_QP, body, 0)
for port in (0, 2, 255):
    body = b"\0" * 64 + P("II", qp, 0x39) + b"\0" * 24 + b"\1" + b"\0" * 7 + bytes([port])
    try_(f"modify-qp-port-{port}", v.write, MODIFY_QP, body + b"\0" * (112 - len(body)), 0)
try_("query-qp-bad", v.write, QUERY_QP, P("QII", v.rp, 0x7777, 0), 128)
try_("query-qp-all", v.write, QUERY_QP, P("QII", v.rp, qp, 0xFFFFFFFF), 128)
try_("query-qp-no-room", v.write, QUERY_QP, P("QII", v.rp, qp, 1), 16)
for n, sge, size in ((1, 0, 128), (0xFFFFFFFF, 0, 128), (1, 0xFFFFFFFF, 128), (1, 0, 0xFFFFFFFF), (1, 0, 4), (0, 0, 128), (2, 8, 128)):
    try_(f"post-send {n:x} {sge:x} {size:x}", v.write, POST_SEND, P("QIIII", v.rp, qp, n, sge, size) + b"\0" * 256, 4)
    try_(f"post-recv {n:x} {sge:x} {size:x}", v.write, POST_RECV, P("QIIII", v.rp, qp, n, sge, size) + b"\0" * 256, 4)
for lid in (0, 0xC000, 0xFFFF):
    for gid in (b"\0" * 16, b"\xff" + b"\0" * 15, b"\xff" * 16):
        try_(f"attach {lid:x} {gid[:1].hex()}{gid[-1:].hex()}", v.write, ATTACH, gid + P("IHH", qp, lid, 0), 0)
try_("detach-none", v.write, DETACH, b"\xff" * 16 + P("IHH", qp, 0, 0), 0)
for port, sgid, glob in ((0, 0, 1), (2, 0, 1), (1, 255, 1), (1, 200, 1), (1, 0, 0), (1, 0, 1), (255, 0, 1)):
    ah = b"\xfe\x80" + b"\0" * 14 + P("IBBBB", 0, sgid, 0, 0, 0) + P("HBBBBBB", 0, 0, 0, 0, glob, port, 0)
    try_(f"create-ah port {port} sgid {sgid} global {glob}", v.write, CREATE_AH, P("QQII", v.rp, 3, pd, 0) + ah, 12)
for what, wr, sge in (("0", 0, 1), ("max", 0xFFFFFFFF, 1), ("sge-max", 4, 0xFFFFFFFF), ("2^20", 1 << 20, 1), ("good", 4, 1)):
    r = try_(f"create-srq-{what}", v.write, CREATE_SRQ, P("QQIIII", v.rp, 5, pd, wr, sge, 0), 40)
srq = struct.unpack_from("=I", r)[0] if r else 0
for mask in (0, 1, 2, 3, 4, 0xFFFFFFFF):
    for wr, limit in ((0, 0), (8, 0xFFFFFFFF), (0xFFFFFFFF, 1), (2, 3)):
        try_(f"modify-srq {mask:x} {wr:x} {limit:x}", v.write, MODIFY_SRQ, P("IIIIQ", srq, mask, wr, limit, 0), 0)
for kind in (0, 1, 2, 3, 255):
    try_(f"alloc-mw-{kind}", v.write, ALLOC_MW, P("QIBBBB", v.rp, pd, kind, 0, 0, 0), 8)
try_("dealloc-pd-busy", v.write, DEALLOC_PD, P("I", pd), 0)
try_("destroy-cq-busy", v.write, DESTROY_CQ, P("QII", v.rp, cq, 0), 8)
try_("destroy-qp-as-cq", v.write, DESTROY_CQ, P("QII", v.rp, qp, 0), 8)

# --- mmap --------------------------------------------------------------------
for offset in (0, 4096, 1 << 32, 0x7FFFFFFFF000):
    for length in (4096, 1 << 20):
        def m():
            mmap.mmap(v.fd, length, offset=offset).close()
        try_(f"mmap {offset:x} {length:x}", m)

# --- ioctl --------------------------------------------------------------------
OBJECTS = list(range(0, 22)) + [0x0FFF, 0x1000, 0x1001, 0xF000, 0xFFFF]
for obj in OBJECTS:
    for method in list(range(0, 10)) + [0x0FFF, 0x1000, 0xFFFF]:
        try_(f"ioctl {obj:x}.{method:x} none", v.ioctl, obj, method)
junk = ctypes.create_string_buffer(b"\xa5" * 4096)
jp = ctypes.addressof(junk)
for obj in range(0, 20):
    for method in range(0, 9):
        for attr_id in (0, 1, 2, 3, 0x0FFF, 0x1000, 0xFFFF):
            for what, size, data in (("inline0", 0, 0), ("inline8", 8, 0xFFFFFFFFFFFFFFFF), ("null", 64, 0), ("kernel", 64, 0xFFFF888000000000),
                                     ("huge", 0xFFFF, jp), ("good", 64, jp)):
                # Mandatory, so that an unknown id is refused and not skipped.
                try_(f"ioctl {obj:x}.{method:x} attr {attr_id:x} {what}", v.ioctl, obj, method, [(attr_id, size, 1, 0, data)])
for what, kw in (("length-short", {"length": 8}), ("length-0", {"length": 0}), ("length-long", {"length": 4000}),
                 ("num-more", {"num": 5}), ("num-max", {"num": 0xFFFF}), ("reserved1", {"reserved1": 1}),
                 ("reserved2", {"reserved2": 1}), ("driver-0", {"driver": 0}), ("driver-99", {"driver": 99}),
                 ("tail", {"tail": b"\1" * 8})):
    try_(f"ioctl-header-{what}", v.ioctl, 0, 2, [(0, 1, 1, 0, 1)], **kw)
try_("ioctl-twice", v.ioctl, 0, 2, [(0, 1, 1, 0, 1), (0, 1, 1, 0, 1)])
try_("ioctl-flags", v.ioctl, 0, 2, [(0, 1, 0xFFFF, 0, 1)])
try_("ioctl-attr-reserved", v.ioctl, 0, 2, [(0, 1, 1, 0xFFFF, 1)])
for port in (0, 1, 2, 255, 256):
    try_(f"ioctl-query-port-{port}", v.ioctl, 0, 2, [(0, 1 if port < 256 else 2, 1, 0, port), (1, 64, 1, 0, jp)])
for size in (0, 1, 8, 32, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
    try_(f"ioctl-gid-table-entry-size-{size:x}", v.ioctl, 0, 5, [(0, 8, 1, 0, size), (1, 4, 1, 0, 0), (2, 4096, 1, 0, jp), (3, 8, 1, 0, jp)])
for port, gid in ((0, 0), (1, 0), (1, 1), (1, 1023), (1, 1024), (1, 0xFFFFFFFF), (2, 0), (0xFFFFFFFF, 0)):
    try_(f"ioctl-gid-entry {port:x} {gid:x}", v.ioctl, 0, 6, [(0, 4, 1, 0, port), (1, 4, 1, 0, gid), (2, 4, 1, 0, 0), (3, 32, 1, 0, jp)])
# Overlap: the response lies over the attributes themselves.
o = ctypes.create_string_buffer(256)
op = ctypes.addressof(o)
struct.pack_into("=HHHHQII", o, 0, 24 + 32, 0, 2, 2, 0, 14, 0)
struct.pack_into("=HHHHQHHHHQ", o, 24, 0, 1, 1, 0, 1, 1, 64, 1, 0, op)
libc = ctypes.CDLL(None, use_errno=True)
r = libc.ioctl(v.fd, ctypes.c_ulong(IOCTL), o)
print("ioctl-overlap:", "OK" if r == 0 else errno.errorcode[ctypes.get_errno()])
for what, ptr in BAD_POINTERS:
    r = libc.ioctl(v.fd, ctypes.c_ulong(IOCTL), ctypes.c_void_p(ptr))
    print(f"ioctl-header-at-{what}:", "OK" if r == 0 else errno.errorcode[ctypes.get_errno()])
r = libc.ioctl(v.fd, ctypes.c_ulong(0x1B02), op)
print("ioctl-other-number:", "OK" if r == 0 else errno.errorcode[ctypes.get_errno()])
v.close()

# --- random: nothing compared, only survived -----------------------------------
rng = random.Random(815)
for n in range(int(sys.argv[2]) if len(sys.argv) > 2 else 0):
    if n % 200 == 0:
        v = Verbs()
        v.write(ALLOC_PD, P("Q", v.rp), 4)
        create = v.write(CREATE_CQ, P("QQIIiI", v.rp, 7, 16, 0, -1, 0), 24)
    try:
        if rng.randrange(2):
            body = bytearray(P("Q", v.rp) + bytes(rng.choice((0, 0, 0, 1, 255, rng.randrange(256))) for _ in range(rng.randrange(0, 120, 4))))
            cmd = rng.randrange(41)
            if cmd != CHANNEL:
                v.write(cmd, bytes(body), rng.choice((0, 4, 8, 64, 256)))
        else:
            attrs = [(rng.choice((rng.randrange(12), 0x1000, 0x1001)), rng.choice((0, 1, 4, 8, 64, rng.randrange(65536))), rng.randrange(4), 0,
                      rng.choice((0, 1, jp, v.rp, rng.randrange(1 << 64)))) for _ in range(rng.randrange(8))]
            v.ioctl(rng.randrange(20), rng.randrange(10), attrs)
    except OSError:
        pass
    if n % 200 == 199:
        v.close()
