#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rxe_fields.py c|rust [CASE...]: cases of field reports, and of faults that the C driver still shows, about
Soft-RoCE. With the C driver those that it is known to fail have to fail, which shows that they can.

On rxe0 (netdev d0, 10.9.0.1 and fd00:9::1), whose queue pairs send to each other inside the driver. d0 has
a cable, at whose other end (p0) only the cases put something in.
"""
import errno
import faulthandler
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback

from endpoint import FLUSH, GRH, RIGHTS, STATUS, Endpoint, e, gid_index, group, uverbs_fd
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QPAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

DEV = "rxe0"
V4 = "ffff:0a09:0001"
V6 = "fd00:0009:0000:0000:0000:0000:0000:0001"
BIND = RIGHTS | e.IBV_ACCESS_MW_BIND
S = "SUCCESS"
CASES, FAILS_ON_C = {}, set()
LIMIT = int(os.environ.get("CASE_LIMIT", "180"))


def case(on_c):
    """Registers a case; `on_c` says whether the C driver passes it."""
    def add(fn):
        CASES[fn.__name__] = fn
        if not on_c:
            FAILS_ON_C.add(fn.__name__)
        return fn
    return add


def expect(what, got, wanted):
    ok = got in wanted if isinstance(wanted, set) else got == wanted
    print(f"{'ok' if ok else 'WRONG'} {what}: {got}" + ("" if ok else f", not {wanted}"))
    expect.failed |= not ok


expect.failed = False


def pair(kind="rc", address=V4, **options):
    """Two endpoints, connected to each other."""
    index = gid_index(DEV, address)
    a = Endpoint(DEV, index, kind, **options)
    b = Endpoint(DEV, index, kind, ctx=a.ctx, pd=a.pd, **options)
    a.connect(b.info())
    b.connect(a.info())
    return a, b


def states(*eps):
    names = {e.IBV_QPS_RESET: "RESET", e.IBV_QPS_INIT: "INIT", e.IBV_QPS_RTR: "RTR", e.IBV_QPS_RTS: "RTS",
             e.IBV_QPS_SQD: "SQD", e.IBV_QPS_SQE: "SQE", e.IBV_QPS_ERR: "ERR"}
    return [names[ep.state()] for ep in eps]


def settled(ep, state, seconds=5):
    """The state, when it has become that or the time is over."""
    end = time.monotonic() + seconds
    while states(ep) != [state] and time.monotonic() < end:
        time.sleep(0.01)
    return states(ep)[0]


def errno_of(fn, *args):
    try:
        fn(*args)
    except PyverbsRDMAError as err:
        return errno.errorcode.get(err.error_code, err.error_code)
    except PyverbsError as err:
        return str(err)
    except OSError as err:
        return errno.errorcode[err.errno]
    return 0


def to(ep, state, **attrs):
    attr = QPAttr(qp_state=state)
    mask = e.IBV_QP_STATE
    for name, (value, bit) in attrs.items():
        setattr(attr, name, value)
        mask |= bit
    ep.qp.modify(attr, mask)


# --- packets -------------------------------------------------------------

def crc_of(ip, udp, packet):
    """ICRC of a RoCE v2 packet without it (IBTA vol. 1, 7.8, and annex A17.3.3)."""
    import zlib
    ip, udp, packet = bytearray(ip), bytearray(udp), bytearray(packet)
    for at in (1, 8, 10, 11):
        ip[at] = 0xFF
    udp[6:8] = b"\xff\xff"
    packet[4:5] = b"\xff"[:len(packet[4:5])]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + packet))


def raw_socket():
    """A socket at the other end of d0's cable."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sock.bind(("p0", 0))
    return sock


def frame(packet, right=True, port=0xC000):
    """An Ethernet frame with this RoCE packet, from and to 10.9.0.1, and its ICRC."""
    own = socket.inet_aton("10.9.0.1")
    size = 20 + 8 + len(packet) + 4
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0x4000, 64, 17, 0, own, own)
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    udp = struct.pack(">HHHH", port, 4791, size - 20, 0)
    crc = crc_of(ip, udp, packet)
    if not right:
        crc = bytes(b ^ 0x5A for b in crc)
    return bytes.fromhex("020000000001 02000000000f 0800") + ip + udp + packet + crc


def bth(opcode, qpn, psn, pad=0, ack=True):
    return struct.pack(">BBHII", opcode, pad << 4, 0xFFFF, qpn, (ack << 31) | psn)


@case(True)
def b33():
    """Packets of all opcodes, lengths, paddings and checksums from a raw socket: dropped, nothing else."""
    rng = random.Random(33)
    pairs = [pair(kind) for kind in ("rc", "uc", "ud")]
    qpns = [ep.qp.qp_num for two in pairs for ep in two] + [1, 0xFFFFFF, 0, 77]
    sock = raw_socket()
    count = 0
    for opcode in range(256):
        for length in range(0, 101, 3):
            # With a wrong checksum mostly; a right one must not be executed by a queue pair with other numbers.
            packet = bth(opcode, rng.choice(qpns), rng.getrandbits(24), rng.randrange(4))[:length]
            packet += rng.randbytes(length - len(packet))
            sock.send(frame(packet, False))
            count += 1
    # The form is looked at before the checksum, but forged padding may have a right one as well.
    a, b = pairs[0]
    sock.send(frame(bth(0x04, b.qp.qp_num, 0x7FFFFF, 3)))
    sock.send(frame(bth(0x0C, b.qp.qp_num, 0x7FFFFF, 3)))
    sock.send(frame(bth(0x64, pairs[2][1].qp.qp_num, 5, 3) + b"\0" * 8))
    print(count, "packets")
    for kind, (a, b) in zip(("rc", "uc", "ud"), pairs):
        expect(f"{kind}: states", states(a, b), ["RTS", "RTS"])
        b.recv(200)
        a.post("send", 100)
        expect(f"{kind}: sender", a.statuses(), [S])
        expect(f"{kind}: receiver", b.statuses(), [S])


@case(True)
def b35():
    """Only an atomic write of 8 bytes is executed."""
    sock = raw_socket()
    for length, payload, pad in [(n, p, q) for n in (0, 4, 8, 16) for p in (0, 4, 8, 12) for q in (0, 3)]:
        a, b = pair(rq_psn=100, sq_psn=100)
        b.mr.write(b"\xaa" * 64, 64)
        reth = struct.pack(">QII", b.mr.buf, b.mr.rkey, length)
        sock.send(frame(bth(0x1D, b.qp.qp_num, 100, pad) + reth + b"\x55" * payload))
        right = (length, payload, pad) == (8, 8, 0)
        changed = b"\x55" * 8 + b"\xaa" * 56 if right else b"\xaa" * 64
        end = time.monotonic() + 2
        while right and b.mr.read(64, 0) != changed and time.monotonic() < end:
            time.sleep(0.01)
        if not right:
            time.sleep(0.02)
        expect(f"length {length}, payload {payload}, pad {pad}", b.mr.read(64, 0) == changed, True)
        for ep in (a, b):
            ep.close()


@case(True)
def b36():
    """Addresses close to 2^64 and beside the region, of the peer's memory and of the own."""
    for op in ("write", "read", "add"):
        n = 8 if op == "add" else 0x400
        for what, where in (("wraps", lambda b: 0xFFFFFFFFFFFFFC00), ("before", lambda b: b.mr.buf - 8),
                            ("over the end", lambda b: b.mr.buf + 65536 - n + 8)):
            a, b = pair()
            a.post(op, n, raddr=where(b), value=1)
            expect(f"{op} {what}", a.statuses(), ["REM_ACCESS_ERR"])
    for what, addr, n in (("wraps", 0xFFFFFFFFFFFFFC00, 0x400), ("over the end", None, 0x400)):
        a, b = pair()
        b.recv(0x400)
        base = a.mr.buf + 65536 - 8 if addr is None else addr
        a.post("send", n, lists=[SGE(base, n, a.mr.lkey)])
        # WR_FLUSH_ERR is x02.
        expect(f"own memory {what}", a.statuses()[0], {"LOC_PROT_ERR", "WR_FLUSH_ERR"})


@case(True)
def b38():
    """A datagram that is too long for the receive is dropped, and the receive waits for the next."""
    a, b = pair("ud")
    for n in range(3):
        b.recv(100, wr_id=n)
    a.post("send", 200)
    a.post("send", 20)
    expect("sender", a.statuses(2), [S, S])
    wcs = b.wait()
    expect("receiver", [(w.status, w.wr_id, w.byte_len) for w in wcs], [(e.IBV_WC_SUCCESS, 0, 20 + GRH)])
    expect("states", states(a, b), ["RTS", "RTS"])


@case(False)
def b38_srq():
    """The same with a shared receive queue."""
    index = gid_index(DEV, V4)
    a = Endpoint(DEV, index, "ud")
    srq = SRQ(a.pd, SrqInitAttr(SrqAttr(max_wr=10, max_sge=2)))
    b = Endpoint(DEV, index, "ud", ctx=a.ctx, pd=a.pd, srq=srq)
    a.connect(b.info())
    b.connect(a.info())
    for n in range(3):
        srq.post_recv(RecvWR(wr_id=n, num_sge=1, sg=[b.sge(100)]))
    a.post("send", 200)
    a.post("send", 20)
    expect("sender", a.statuses(2), [S, S])
    expect("receiver", [(w.status, w.wr_id) for w in b.wait()], [(e.IBV_WC_SUCCESS, 0)])


@case(False)
def ud_length():
    """A datagram longer than the MTU is not sent, so it is no success: local length error, and SQE."""
    a, b = pair("ud")
    b.recv(4000)
    a.post("send", 1025)
    a.post("send", 1)
    expect("sender", a.statuses(2), ["LOC_LEN_ERR", "WR_FLUSH_ERR"])
    expect("state", settled(a, "SQE"), "SQE")
    to(a, e.IBV_QPS_RTS, cur_qp_state=(e.IBV_QPS_SQE, e.IBV_QP_CUR_STATE))
    a.post("send", 1)
    expect("sender, to RTS again", a.statuses(), [S])
    expect("receiver", b.statuses(), [S])


@case(False)
def sqe_then_err():
    """The receive side of a queue pair in SQE works, and its failure is one of the whole queue pair."""
    for kind in ("ud", "uc"):
        a, b = pair(kind)
        a.post("send", 8, key=0xDEAD00)
        expect(f"{kind}: sender", a.statuses(), ["LOC_PROT_ERR"])
        expect(f"{kind}: state", settled(a, "SQE"), "SQE")
        a.recv(200, wr_id=1)
        b.post("send", 8)
        expect(f"{kind}: receives in SQE", a.statuses(), [S])
        a.recv(200, key=0xDEAD00, wr_id=2)
        a.recv(200, wr_id=3)
        b.post("send", 8)
        wcs = a.wait(2)
        expect(f"{kind}: receives", [(w.wr_id, STATUS[w.status]) for w in wcs], [(2, "LOC_PROT_ERR"), (3, "WR_FLUSH_ERR")])
        expect(f"{kind}: state then", settled(a, "ERR"), "ERR")
        a.post("send", 8)
        expect(f"{kind}: sends are flushed", a.statuses(), ["WR_FLUSH_ERR"])


@case(True)
def b40():
    """The peer waits as long as the receiver asks, and as often as it may."""
    for retries in (0, 1, 6):
        a, b = pair(rnr_retry=retries, min_rnr_timer=20)        # 10.24 ms
        start = time.monotonic()
        a.post("send", 8)
        a.post("send", 8)
        expect(f"{retries} retries", a.statuses(1), ["RNR_RETRY_EXC_ERR"])
        took = (time.monotonic() - start) * 1000
        expect(f"{retries} retries: {took:.0f} ms are enough", took >= retries * 10.24, True)
        a.close(), b.close()
    a, b = pair(rnr_retry=7, min_rnr_timer=20)
    a.post("send", 8)
    expect("7: no end", a.statuses(1, 2), [])
    b.recv(8)
    expect("7: the receive comes", a.statuses(), [S])


@case(True)
def b42():
    """A message arrives at most once, whenever the receiver fails."""
    rng = random.Random(42)
    for _ in range(30):
        a, b = pair(depth=256)
        for n in range(250):
            b.recv(8, 8 * n, wr_id=n)
        for n in range(100):
            a.mr.write(n.to_bytes(8, "little"), 8, 8 * n)
            a.post("send", 8, at=8 * n)
        time.sleep(rng.random() * 0.01)
        to(b, e.IBV_QPS_ERR)
        wcs = b.wait(250)
        good = [w.wr_id for w in wcs if w.status == e.IBV_WC_SUCCESS]
        told = [int.from_bytes(b.mr.read(8, 8 * n), "little") for n in good]
        if len(wcs) != 250 or told != list(range(len(told))) or [w.wr_id for w in wcs] != list(range(250)):
            expect("completions", (len(wcs), told), "250, in order")
        a.close(), b.close()
    print("30 rounds")


@case(False)
def b44():
    """Each error has its status at either end, and both ends are told."""
    def one(what, here, there, work, before=lambda a, b: None, options=None, state="ERR"):
        a, b = pair(**(options or {}))
        before(a, b)
        work(a, b)
        a.post("send", 1)
        expect(f"{what}: sender", a.statuses(2), [here, "WR_FLUSH_ERR"])
        if there:
            expect(f"{what}: receiver", b.statuses(1), [there])
        expect(f"{what}: state", settled(a, state), state)
        a.close(), b.close()

    one("wrong rkey, write", "REM_ACCESS_ERR", None, lambda a, b: a.post("write", 8, rkey=0xDEAD00))
    one("wrong rkey, read", "REM_ACCESS_ERR", None, lambda a, b: a.post("read", 8, rkey=0xDEAD00))
    one("wrong rkey, atomic", "REM_ACCESS_ERR", None, lambda a, b: a.post("add", 8, rkey=0xDEAD00, value=1))
    one("queue pair without right", "REM_INV_REQ_ERR", None, lambda a, b: a.post("read", 8),
        options={"rights": e.IBV_ACCESS_REMOTE_WRITE})
    one("region without right", "REM_ACCESS_ERR", None, lambda a, b: a.post("read", 8),
        options={"access": e.IBV_ACCESS_LOCAL_WRITE})
    one("atomic not aligned", "REM_INV_REQ_ERR", None, lambda a, b: a.post("add", 8, to=4, value=1))
    one("no place for reads", "REM_INV_REQ_ERR", None, lambda a, b: a.post("read", 8), options={"max_dest_rd_atomic": 0})
    one("receive with a bad key", "REM_OP_ERR", "LOC_PROT_ERR", lambda a, b: a.post("send", 8),
        lambda a, b: b.recv(8, key=0xDEAD00))
    one("receive too short", "REM_INV_REQ_ERR", "LOC_LEN_ERR", lambda a, b: a.post("send", 9), lambda a, b: b.recv(8))
    one("read to a bad key", "LOC_PROT_ERR", None, lambda a, b: a.post("read", 8, key=0xDEAD00))
    one("atomic to a bad key", "LOC_PROT_ERR", None, lambda a, b: a.post("add", 8, key=0xDEAD00, value=1))
    one("SEND with invalidate of a wrong key", "REM_ACCESS_ERR", "REM_INV_REQ_ERR",
        lambda a, b: a.post("send_inv", 8, imm=0xDEAD00), lambda a, b: b.recv(8))


@case(True)
def b46():
    """Each request is flushed once, in order, in ERR; none in RESET."""
    for kind in ("rc", "uc", "ud"):
        a, b = pair(kind, rnr_retry=7)
        del b
        for n in range(10):
            a.recv(8, wr_id=n)
        to(a, e.IBV_QPS_ERR)
        for n in range(10, 12):
            a.recv(8, wr_id=n)
        for n in range(10, 12):
            a.post("send", 8, wr_id=100 + n)
        wcs = a.wait(14)
        expect(f"{kind}: all are flushed", [w.status for w in wcs], [e.IBV_WC_WR_FLUSH_ERR] * 14)
        expect(f"{kind}: receives", [w.wr_id for w in wcs if w.wr_id < 100], list(range(12)))
        expect(f"{kind}: sends", [w.wr_id for w in wcs if w.wr_id >= 100], [110, 111])
        to(a, e.IBV_QPS_RESET)
        expect(f"{kind}: no more", a.statuses(1, 0.2), [])


@case(True)
def b48():
    """Operations on no bytes need no key, and immediate data come with the length."""
    a, b = pair()
    b.mr.write(b"\xaa" * 8000, 8000)
    for op in ("write", "read"):
        for key in (0, 0xDEADBEEF):
            a.post(op, 0, rkey=key, raddr=0)
            expect(f"{op} of 0 bytes, key {key:#x}", a.statuses(), [S])
    expect("region", b.mr.read(8000, 0), b"\xaa" * 8000)
    for n in (0, 1, 5000):
        b.recv(0)
        a.post("write_imm", n, imm=n + 7)
        expect(f"write with immediate of {n}", a.statuses(), [S])
        wcs = b.wait()
        expect(f"receive of {n}", [(w.byte_len, socket.ntohl(w.imm_data), w.wc_flags & e.IBV_WC_WITH_IMM) for w in wcs],
               [(n, n + 7, e.IBV_WC_WITH_IMM)])


@case(True)
def b49():
    """The depth of a responder changes under READs."""
    a, b = pair(max_rd_atomic=8, max_dest_rd_atomic=8)
    end, stop = time.monotonic() + 10, []

    def change():
        while not stop:
            for depth in (8, 16, 64, 128, 8):
                attr = QPAttr()
                attr.max_dest_rd_atomic = depth
                errno_of(b.qp.modify, attr, e.IBV_QP_MAX_DEST_RD_ATOMIC)
    thread = threading.Thread(target=change)
    thread.start()
    count = 0
    while time.monotonic() < end:
        for _ in range(8):
            a.post("read", 4000)
        got = set(a.statuses(8))
        count += 8
        if got != {S}:
            # Answers that were forgotten cannot be repeated.
            expect("reads", got <= {S, "REM_INV_REQ_ERR", "WR_FLUSH_ERR", "RETRY_EXC_ERR"}, True)
            a.connect(b.info()), b.connect(a.info())
    stop.append(1)
    thread.join()
    print(count, "reads")
    attr = QPAttr()
    attr.max_dest_rd_atomic = 16
    if not errno_of(b.qp.modify, attr, e.IBV_QP_MAX_DEST_RD_ATOMIC):
        expect("depth", b.qp.query(e.IBV_QP_MAX_DEST_RD_ATOMIC)[0].max_dest_rd_atomic, 16)


@case(True)
def b50():
    """A shared receive queue changes its size, as a whole or not at all."""
    a = Endpoint(DEV, gid_index(DEV, V4))
    srq = SRQ(a.pd, SrqInitAttr(SrqAttr(max_wr=10, max_sge=1)))
    srq.modify(SrqAttr(max_wr=100), e.IBV_SRQ_MAX_WR)
    expect("size", srq.query().max_wr >= 100, True)
    for n in range(50):
        srq.post_recv(RecvWR(wr_id=n, num_sge=1, sg=[a.sge(8)]))
    expect("too small", errno_of(srq.modify, SrqAttr(max_wr=20), e.IBV_SRQ_MAX_WR), "EINVAL")
    expect("limit", errno_of(srq.modify, SrqAttr(srq_limit=5), e.IBV_SRQ_LIMIT), 0)
    expect("too large", errno_of(srq.modify, SrqAttr(max_wr=(1 << 20) + 1), e.IBV_SRQ_MAX_WR), "EINVAL")
    expect("size then", srq.query().max_wr >= 100, True)
    b = Endpoint(DEV, a.index, ctx=a.ctx, pd=a.pd, srq=srq)
    a.connect(b.info())
    b.connect(a.info())
    for _ in range(50):
        a.post("send", 8)
        a.statuses()
    wcs = b.wait(50)
    expect("all receives in order", [w.wr_id for w in wcs], list(range(50)))
    event = a.ctx.get_async_event()
    event.ack()     # before that the queue cannot be destroyed
    expect("limit event", event.event_type, e.IBV_EVENT_SRQ_LIMIT_REACHED)


# --- windows -------------------------------------------------------------

def bind(ep, mw, mr, addr, length, access, kind):
    """Status of a bind, and the key."""
    info = MWBindInfo(mr, addr, length, access)
    if kind == 1:
        ep.qp.bind_mw(mw, MWBind(info, e.IBV_SEND_SIGNALED))
        return ep.statuses()[0], mw.rkey
    wr = SendWR(opcode=e.IBV_WR_BIND_MW)
    wr.set_bind_wr(mw, info)
    ep.qp.post_send(wr)
    return ep.statuses()[0], wr.rkey


@case(False)
def b54():
    """Binds that are not allowed say so."""
    rw = e.IBV_ACCESS_REMOTE_WRITE
    for kind, type_ in ((1, e.IBV_MW_TYPE_1), (2, e.IBV_MW_TYPE_2)):
        for what, access, wanted, length, beyond in (
                ("right", BIND, S, 4096, 0),
                ("without the right to bind", RIGHTS, "MW_BIND_ERR", 4096, 0),
                ("write without local write", e.IBV_ACCESS_MW_BIND | e.IBV_ACCESS_REMOTE_READ, "MW_BIND_ERR", 4096, 0),
                ("beyond the region", BIND, "MW_BIND_ERR", 4096, 65536 - 4095)):
            a, b = pair(access=access)
            mw = MW(a.pd, type_)
            status, _ = bind(a, mw, a.mr, a.mr.buf + beyond, length, rw, kind)
            expect(f"type {kind}, {what}", status, wanted)
            if status == S:
                expect(f"type {kind}: region in use", errno_of(a.mr.close), "EINVAL")
            mw.close()
            a.close(), b.close()


@case(False)
def window_bounds():
    """A window lets through what lies in it, not what lies in its region."""
    for kind, type_ in ((1, e.IBV_MW_TYPE_1), (2, e.IBV_MW_TYPE_2)):
        for op in ("write", "read"):
            for what, first, wanted in (("first byte", 0, S), ("one before", -1, "REM_ACCESS_ERR"),
                                        ("last byte", 4096 - 64, S), ("one behind", 4096 - 63, "REM_ACCESS_ERR")):
                a, b = pair(access=BIND)
                mw = MW(b.pd, type_)
                rights = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
                status, key = bind(b, mw, b.mr, b.mr.buf + 8192, 4096, rights, kind)
                expect(f"type {kind}: bind", status, S)
                a.post(op, 64, to=8192 + first, rkey=key)
                expect(f"type {kind}, {op}, {what}", a.statuses(), [wanted])
                mw.close()
                a.close(), b.close()


def invalidated():
    """Two endpoints, a window of the second, whose key a message of the first has invalidated, the key, the completion."""
    a, b = pair(access=BIND)
    mw = MW(b.pd, e.IBV_MW_TYPE_2)
    status, key = bind(b, mw, b.mr, b.mr.buf, 4096, e.IBV_ACCESS_REMOTE_WRITE, 2)
    expect("bind", status, S)
    b.recv(8)
    a.post("send_inv", 8, imm=key)
    expect("send", a.statuses(), [S])
    wc, = b.wait(1)
    expect("receive", STATUS[wc.status], S)
    return a, b, mw, key, wc


@case(True)
def window_end():
    """A window that is gone lets nothing through, and frees its region."""
    a, b, mw, key, _ = invalidated()
    a.post("write", 8, rkey=key)
    expect("write", a.statuses(), ["REM_ACCESS_ERR"])
    expect("region", errno_of(b.mr.close), 0)
    mw.close()


@case(False)
def with_inv():
    """A completion of a message that has invalidated a key says so with the flag of libibverbs."""
    _, _, mw, key, wc = invalidated()
    expect("flag", wc.wc_flags & e.IBV_WC_WITH_INV, e.IBV_WC_WITH_INV)
    expect("key", wc.imm_data, key)
    mw.close()


# --- states --------------------------------------------------------------

@case(False)
def cur_state():
    """What the caller believes of the state does not replace the state."""
    a, b = pair()
    del b
    attr = QPAttr(qp_state=e.IBV_QPS_RTS)
    attr.cur_qp_state = e.IBV_QPS_SQD
    expect("RTS, believed in SQD", errno_of(a.qp.modify, attr, e.IBV_QP_STATE | e.IBV_QP_CUR_STATE), "EINVAL")
    to(a, e.IBV_QPS_ERR)
    attr = QPAttr(qp_state=e.IBV_QPS_RTS)
    attr.cur_qp_state = e.IBV_QPS_RTS
    expect("ERR, believed in RTS", errno_of(a.qp.modify, attr, e.IBV_QP_STATE | e.IBV_QP_CUR_STATE), "EINVAL")
    expect("state", states(a), ["ERR"])


@case(True)
def err_from_reset():
    """A queue pair that was never set up can be put into the error state, and out of it."""
    a = Endpoint(DEV, gid_index(DEV, V4))
    to(a, e.IBV_QPS_ERR)
    expect("state", states(a), ["ERR"])
    a.recv(8, wr_id=5)
    # Of a receive alone the driver would not hear.
    a.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, wr_id=6, num_sge=1, sg=[a.sge(8)]))
    expect("requests are flushed", sorted(w.wr_id for w in a.wait(2)), [5, 6])
    to(a, e.IBV_QPS_RESET)
    a.connect(a.info())
    a.recv(8)
    a.post("send", 8)
    expect("afterwards", a.statuses(2), [S, S])


@case(False)
def x02():
    """The request at fault has its own status; those before end as usual, those after are flushed."""
    for what, wanted, work in (
            ("bad key, send", "LOC_PROT_ERR", lambda a, b: a.post("send", 8, wr_id=2, key=0xDEAD00)),
            ("bad key, write", "LOC_PROT_ERR", lambda a, b: a.post("write", 8, wr_id=2, key=0xDEAD00)),
            ("range", "LOC_PROT_ERR", lambda a, b: a.post("write", 8, wr_id=2, at=65532))):
        a, b = pair()
        b.recv(100)
        a.post("write", 3000, wr_id=1)
        work(a, b)
        a.post("write", 8, wr_id=3)
        wcs = a.wait(3)
        expect(what, [(w.wr_id, STATUS[w.status]) for w in wcs], [(1, S), (2, wanted), (3, "WR_FLUSH_ERR")])


@case(False)
def read_depth_0():
    """A READ of a queue pair that may have none ends, with an error."""
    a, b = pair(max_rd_atomic=0)
    del b
    a.post("read", 8)
    expect("read", a.statuses(1, 5), ["LOC_QP_OP_ERR"])


@case(False)
def retry_7():
    """Seven retries are seven, and not for ever."""
    index = gid_index(DEV, V4)
    a = Endpoint(DEV, index, timeout=8, retry_cnt=7)     # 1 ms
    a.connect({**a.info(), "qpn": a.qp.qp_num + 4096})      # nobody
    a.post("send", 8)
    expect("send", a.statuses(1, 10), ["RETRY_EXC_ERR"])


# --- memory --------------------------------------------------------------

@case(False)
def x01():
    """On-demand regions: bytes go where they are to go, at any offset and over pages."""
    a = Endpoint(DEV, gid_index(DEV, V4))
    b = Endpoint(DEV, a.index, ctx=a.ctx, pd=a.pd)
    a.connect(b.info())
    b.connect(a.info())
    odp = MR(a.pd, 16384, RIGHTS | e.IBV_ACCESS_ON_DEMAND)
    rng = random.Random(1)
    shadow = bytearray(b"." * 16384)
    odp.write(bytes(shadow), 16384)
    for first, n in ((256, 64), (3000, 6000), (4095, 2), (1, 1), (8191, 4098)):
        text = rng.randbytes(n)
        a.mr.write(text, n)
        a.post("write", n, rkey=odp.rkey, raddr=odp.buf + first)
        shadow[first:first + n] = text
        expect(f"write of {n} at {first}", a.statuses(), [S])
        expect(f"bytes of {n} at {first}", odp.read(16384, 0) == bytes(shadow), True)
        a.post("read", n, at=20000, rkey=odp.rkey, raddr=odp.buf + first)
        expect(f"read of {n} at {first}", a.statuses(), [S])
        expect(f"read bytes of {n} at {first}", a.mr.read(n, 20000) == text, True)
        b.recv(n, at=30000)
        a.post("send", n, lists=[SGE(odp.buf + first, n, odp.lkey)])
        expect(f"send of {n} from {first}", a.statuses(), [S])
        b.wait()
        expect(f"sent bytes of {n} from {first}", b.mr.read(n, 30000) == text, True)
    odp.write((5).to_bytes(8, "little"), 8, 4104)
    a.post("add", 8, rkey=odp.rkey, raddr=odp.buf + 4104, value=3)
    expect("atomic", a.statuses(), [S])
    expect("value", (int.from_bytes(odp.read(8, 4104), "little"), int.from_bytes(a.mr.read(8, 0), "little")), (8, 5))


@case(False)
def b23():
    """A read-only on-demand region is a source of sends and READs."""
    import mmap
    a, b = pair()
    with open("/usr/bin/python3", "rb") as f:
        text = f.read(65536)
        file = mmap.mmap(f.fileno(), 65536, prot=mmap.PROT_READ)
    import ctypes
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    fd = os.open("/usr/bin/python3", os.O_RDONLY)
    addr = libc.mmap(None, ctypes.c_size_t(65536), 1, 2, fd, 0)
    del file
    mr = MR(a.pd, 65536, e.IBV_ACCESS_ON_DEMAND | e.IBV_ACCESS_REMOTE_READ, address=addr)
    start = time.monotonic()
    a.post("write", 60000, lists=[SGE(addr, 60000, mr.lkey)])
    expect("write", a.statuses(1, 10), [S])
    expect("bytes", b.mr.read(60000, 0) == text[:60000], True)
    a.post("read", 60000, raddr=addr, rkey=mr.rkey)
    expect("read", a.statuses(1, 10), [S])
    expect("bytes read", a.mr.read(60000, 0) == text[:60000], True)
    print(f"{time.monotonic() - start:.1f} s")


# --- network -------------------------------------------------------------

def filters():
    text = subprocess.run(["ip", "maddr", "show", "dev", "d0"], capture_output=True, text=True, check=True).stdout
    return sorted(re.findall(r"link\s+(\S+)", text))


@case(False)
def b64():
    """Groups: the filters of the interface come and go with them, and IPv4 groups have the addresses of IPv4."""
    before = filters()
    a = Endpoint(DEV, gid_index(DEV, V4), "ud")
    a.connect(a.info())
    fd = uverbs_fd()
    six = socket.inet_pton(socket.AF_INET6, "ff0e::1234")
    four = b"\0" * 10 + b"\xff\xff" + socket.inet_aton("239.1.2.3")
    for name, gid, mac in (("IPv6", six, "33:33:00:00:12:34"), ("IPv4", four, "01:00:5e:01:02:03")):
        failed, handle = group(fd, 30, gid)
        expect(f"{name}: attach", failed, 0)
        expect(f"{name}: filter", mac in filters(), True)
        expect(f"{name}: detach", group(fd, 31, gid, [handle])[0], 0)
        expect(f"{name}: second detach", group(fd, 31, gid, [handle])[0], errno.EINVAL)
        expect(f"{name}: filters as before", filters(), before)


@case(False)
def claimed_source():
    """A process that puts the address vector of a datagram into the request cannot claim a source."""
    import ctypes
    a = Endpoint(DEV, gid_index(DEV, V4), "ud")
    a.connect(a.info())
    with open("/proc/self/maps") as f:
        starts = [int(line.split("-")[0], 16) for line in f if re.search(r" rw-s .*uverbs", line)]
    word = ctypes.c_uint32.from_address
    # Send requests are the largest elements.
    ring = max(starts, key=lambda at: word(at).value)
    fd = uverbs_fd()
    for source, wanted in (("10.9.0.1", S), ("10.9.0.77", "LOC_QP_OP_ERR")):
        a.recv(200)
        route = a.gid_bytes() + struct.pack("=IBBBB", 0, a.index, 64, 0, 0)
        av = bytes((1, 1)) + bytes.fromhex("020000000001") + route
        for text in (source, "10.9.0.1"):
            av += (struct.pack("=HH", socket.AF_INET, 0) + socket.inet_aton(text)).ljust(28, b"\0")
        head = struct.pack("=QIIII", 1, 0, 2, 2, 0)     # IBV_WR_SEND, signaled
        wr = struct.pack("=IIHHI16x", a.qp.qp_num, 0x11111111, 0, 0, 0) + av
        dma = struct.pack("=IIIIII", 8, 8, 0, 1, 0, 0) + struct.pack("=QII", a.mr.buf, 8, a.mr.lkey)
        request = head + wr + bytes(40) + dma
        at = word(ring + 128).value & word(ring + 4).value
        ctypes.memmove(ring + 384 + (at << word(ring).value), request, len(request))
        word(ring + 128).value = at + 1
        for handle in range(8):
            try:
                command(fd, 28, struct.pack("=IIII", handle, 0, 0, 256), 8)
            except OSError:
                pass
        expect(f"from {source}", a.statuses(2 if wanted == S else 1), [S, S] if wanted == S else [wanted])


@case(True)
def one_host_v6():
    """Two queue pairs on one host talk over IPv6 as they do over IPv4."""
    for kind in ("rc", "uc", "ud"):
        a, b = pair(kind, V6)
        b.recv(200)
        a.post("send", 100)
        expect(f"{kind}: sender", a.statuses(1, 10), [S])
        expect(f"{kind}: receiver", b.statuses(1, 10), [S])


@case(False)
def b04():
    """A link that could not be made leaves no socket behind."""
    def sh(cmd):
        return subprocess.run(["bash", "-c", cmd], capture_output=True, text=True, check=False)
    sh("ip netns add t; for i in 0 1; do ip -n t link add f$i type dummy; ip -n t link set f$i up; done")
    rdma = "ip netns exec t rdma link"
    expect("link", sh(f"{rdma} add rxt type rxe netdev f0").returncode, 0)
    expect("same name", sh(f"{rdma} add rxt type rxe netdev f1").returncode != 0, True)
    expect("delete", sh(f"{rdma} delete rxt").returncode, 0)
    expect("sockets", sh("ip netns exec t ss -Huln sport = :4791").stdout, "")
    sh("ip netns del t")


@case(False)
def gsi_again():
    """A device that has been in another namespace has its management queue pair again."""
    def sh(cmd):
        return subprocess.run(["bash", "-c", cmd], capture_output=True, text=True, check=False).stdout
    sh("dmesg -C; for i in $(seq 50); do rdma system set netns exclusive && break; sleep 0.2; done; ip netns add t")
    sh("ip link add g0 type dummy; ip link set g0 up; rdma link add rxg type rxe netdev g0; rdma dev set rxg netns t")
    expect("the device is there", "rxg" in sh("ip netns exec t rdma dev"), True)
    expect("QP1", "Couldn't" in sh("dmesg"), False)
    sh("ip netns exec t rdma link delete rxg; ip netns del t; ip link del g0")
    sh("for i in $(seq 50); do rdma system set netns shared && break; sleep 0.2; done")


@case(True)
def b59():
    """Queue pairs that cannot be made leave nothing behind."""
    from pyverbs.cq import CQ
    from pyverbs.qp import QP, QPCap, QPInitAttr
    ctx = Context(name=DEV)
    pd, cq = PD(ctx), CQ(ctx, 16)

    def count():
        out = subprocess.run(["rdma", "resource", "show", "qp", "link", DEV], capture_output=True, text=True, check=True).stdout
        return len(out.splitlines())
    before = count()
    for _ in range(20):
        for sends, sges in ((1 << 20, 32), ((1 << 20) + 1, 1), (16, 33)):
            try:
                QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=sends, max_send_sge=sges))).close()
            except PyverbsRDMAError as err:
                if err.error_code not in (errno.EINVAL, errno.ENOMEM):
                    expect(f"{sends} requests of {sges}", errno.errorcode.get(err.error_code), "EINVAL or ENOMEM")
    expect("queue pairs", count(), before)
    cmd = struct.pack("=IHHQ", 2, 4, 2, 8)      # QUERY_PORT with an address that is none
    fd = uverbs_fd()
    expect("a response that cannot be written", errno_of(os.write, fd, cmd + bytes(8)) in ("EFAULT", "EINVAL"), True)


def run(name):
    """One case in a process of its own; returns (whether it passed, its log)."""
    log = f"{os.environ['LOG']}/{name}.txt"
    pid = os.fork()
    if not pid:
        status = 1
        try:
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(out, 1)
            os.dup2(out, 2)
            sys.stdout.reconfigure(line_buffering=True)
            faulthandler.register(signal.SIGALRM, chain=True)
            signal.alarm(LIMIT)
            CASES[name]()
            status = expect.failed
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(int(status))
    _, status = os.waitpid(pid, 0)
    with open(log) as f:
        return status, f.read().splitlines()


def command(fd, number, body, room):
    """A command of uverbs' write interface; returns the response."""
    import ctypes
    answer = ctypes.create_string_buffer(room)
    body = struct.pack("=Q", ctypes.addressof(answer)) + body
    os.write(fd, struct.pack("=IHH", number, (8 + len(body)) // 4, room // 4) + body)
    return answer.raw


@case(True)
def b53():
    """The memory of a queue can be mapped once, not beyond its size, and outlives the queue."""
    import mmap
    create, destroy = 18, 20        # CREATE_CQ, DESTROY_CQ
    ctx = Context(name=DEV)
    fd = uverbs_fd()

    def new():
        answer = command(fd, create, struct.pack("=QIIiI", 0, 60, 0, -1, 0), 24)
        return struct.unpack("=IIQI", answer[:20])

    def map_(offset, size):
        return mmap.mmap(fd, size, offset=offset)

    def gone(handle):
        command(fd, destroy, struct.pack("=II", handle, 0), 8)
    handle, _, offset, size = new()
    size = -(-size // 4096) * 4096
    expect("too much", errno_of(map_, offset, size + 4096), "EINVAL")
    expect("elsewhere", errno_of(map_, offset + (1 << 20), 4096), "EINVAL")
    ring = map_(offset, size)
    expect("a second time", errno_of(map_, offset, size), "EINVAL")
    gone(handle)
    expect("readable when the queue is gone", len(ring[:]), size)
    ring.close()
    # Mapping against destroying.
    seen, count, end = set(), 0, time.monotonic() + 5
    while time.monotonic() < end:
        handle, _, offset, size = new()
        size = -(-size // 4096) * 4096
        thread = threading.Thread(target=gone, args=(handle,))
        thread.start()
        try:
            ring = map_(offset, size)
            ring[:]
            ring.close()
            seen.add(0)
        except OSError as err:
            seen.add(err.errno)
        thread.join()
        count += 1
    print(count, "rounds")
    expect("mapping or not", seen <= {0, errno.EINVAL, errno.ENXIO}, True)
    del ctx


def main():
    driver, *names = sys.argv[1:]
    for name in names or CASES:
        with open("/dev/kmsg", "w") as f:
            f.write(f"<6>test: rxe-fields:{name}\n")
        status, log = run(name)
        wrong = next((line for line in log if line.startswith("WRONG")), log[-1] if log else "")
        if os.WIFSIGNALED(status):
            wrong = f"signal {os.WTERMSIG(status)} {wrong}"
        must_fail = driver == "c" and name in FAILS_ON_C
        verdict = "PASS" if bool(status) == must_fail else "FAIL"
        if must_fail:
            wrong = f"fails as it must: {wrong}" if status else "the C driver passes it"
        print(f"{verdict} rxe-fields:{name} {wrong[:200] if status or must_fail else ''}", flush=True)


main()
