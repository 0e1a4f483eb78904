#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rxe_xrc.py CASE: extended reliable connections over our rdma_rxe.

Queue pairs, shared receive queues and completion queues are made by commands of
uverbs, and their rings are written here: the library of rxe knows no XRC. Regions
and domains are pyverbs'.
"""
import ctypes
import errno
import gc
import mmap
import os
import socket
import struct
import sys
import tempfile
import time
import zlib

gc.disable()    # pyverbs 56.1 under Python 3.13: a cyclic pass can crash
import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD

from endpoint import RIGHTS, STATUS, check, gid_index, refused

CREATE_CQ, CREATE_QP, QUERY_QP, MODIFY_QP, DESTROY_QP, POST_SEND = 18, 24, 25, 26, 27, 28
DESTROY_SRQ, OPEN_XRCD, CLOSE_XRCD, CREATE_XSRQ, OPEN_QP = 35, 37, 38, 39, 40
XRC_INI, XRC_TGT, SRQ_BASIC, SRQ_XRC = 9, 10, 0, 1
SEND, SEND_IMM, WRITE, WRITE_IMM, READ, CAS, FAA = 2, 3, 0, 1, 4, 5, 6
SIGNALED, INLINE, WITH_IMM = 2, 8, 2
STATE, ACCESS, PKEY, PORT, AV, MTU, TIMEOUT, RETRY, RNR, RQ_PSN = (
    1, 8, 0x10, 0x20, 0x80, 0x100, 0x200, 0x400, 0x800, 0x1000)
OUR_DEPTH, MIN_RNR, SQ_PSN, ITS_DEPTH, DEST = 0x2000, 0x8000, 0x10000, 0x20000, 0x100000
RESET, INIT, RTR, RTS, ERR = 0, 1, 2, 3, 6
HEAD, PRODUCER, CONSUMER = 384, 128, 256
RECEIVES = 16   # of a shared receive queue


class Ring:
    """A ring that is shared with the kernel (struct rxe_queue_buf)."""

    def __init__(self, fd, cookie):
        offset, size, _ = struct.unpack("=QII", cookie)
        self.map = mmap.mmap(fd, size, offset=offset)
        shift, self.mask = struct.unpack_from("=II", self.map, 0)
        self.size = 1 << shift

    # Not by the module struct, which clears the bytes before it writes them: the driver would take
    # what is left of old requests.
    def word(self, at):
        return ctypes.c_uint32.from_buffer(self.map, at).value

    def set_word(self, at, value):
        ctypes.c_uint32.from_buffer(self.map, at).value = value

    def push(self, record):
        at = self.word(PRODUCER)
        start = HEAD + at * self.size
        self.map[start:start + len(record)] = record
        self.set_word(PRODUCER, at + 1 & self.mask)

    def waiting(self):
        """How many records the other side has not taken yet."""
        return self.word(PRODUCER) - self.word(CONSUMER) & self.mask

    def pop(self):
        if not self.waiting():
            return None
        at = self.word(CONSUMER)
        start = HEAD + at * self.size
        record = self.map[start:start + self.size]
        self.set_word(CONSUMER, at + 1 & self.mask)
        return record


class Verbs:
    """A device, as the kernel offers it."""

    def __init__(self, device, address):
        self.ctx = Context(name=device)
        self.fd = self.ctx.cmd_fd
        self.index = gid_index(device, address)
        self.gid = bytes.fromhex(str(self.ctx.query_gid(1, self.index)).replace(":", ""))

    def command(self, number, body, room):
        """Gives a command whose answer, if any, has `room` bytes."""
        answer = ctypes.create_string_buffer(max(room, 1))
        if room:
            body = struct.pack("=Q", ctypes.addressof(answer)) + body
        os.write(self.fd, struct.pack("=IHH", number, (8 + len(body)) // 4, room // 4) + body)
        return answer.raw[:room]

    def domain(self, fd=-1, flags=os.O_CREAT):
        return struct.unpack("=I", self.command(OPEN_XRCD, struct.pack("=iI", fd, flags), 4))[0]

    def close_domain(self, handle):
        self.command(CLOSE_XRCD, struct.pack("=II", handle, 0), 0)


class Completions:
    def __init__(self, verbs):
        answer = verbs.command(CREATE_CQ, struct.pack("=QIIiI", 0, 64, 0, -1, 0), 24)
        self.handle = struct.unpack_from("=I", answer)[0]
        self.ring = Ring(verbs.fd, answer[8:])

    def next(self, seconds=60):
        """(request, status, opcode, bytes, immediate data, queue pair) of the next completion."""
        end = time.time() + seconds
        while True:
            record = self.ring.pop()
            if record:
                wr_id, status, opcode, _, length, ex, qpn, _, flags = struct.unpack_from("=QIIIIIIII", record)
                imm = socket_order(ex) if flags & WITH_IMM else None
                return wr_id, STATUS[status], opcode, length, imm, qpn
            if time.time() > end:
                raise SystemExit("no completion")
            time.sleep(0.001)

    def is_empty(self):
        return not self.ring.waiting()


def socket_order(value):
    return int.from_bytes(struct.pack("=I", value), "big")


class Queue:
    """A shared receive queue with a domain, a region and a completion queue of its own."""

    def __init__(self, verbs, xrcd, kind=SRQ_XRC):
        self.verbs, self.cq, self.pd = verbs, Completions(verbs), PD(verbs.ctx)
        self.mr = MR(self.pd, 1 << 17, RIGHTS)
        body = struct.pack("=QIIIIIIII", 0, kind, self.pd.handle, RECEIVES, 1, 0, 0, xrcd, self.cq.handle)
        answer = verbs.command(CREATE_XSRQ, body, 16 + 24)
        self.handle, _, _, number = struct.unpack_from("=IIII", answer)
        self.ring = Ring(verbs.fd, answer[16:32])
        self.number, = struct.unpack_from("=I", answer, 32)
        if kind == SRQ_XRC:
            check("number of the queue", number, self.number)

    def receive(self, wr_id, at=0, length=1 << 16):
        sge = struct.pack("=QII", self.mr.buf + at, length, self.mr.lkey)
        self.ring.push(struct.pack("=QQIIIIII", wr_id, 0, length, length, 0, 1, 0, 0) + sge)

    def destroy(self):
        self.verbs.command(DESTROY_SRQ, struct.pack("=II", self.handle, 0), 4)


class Qp:
    def __init__(self, verbs, kind, domain, cq=None):
        """`domain`: handle of a protection domain, or of the XRC domain of a target."""
        self.verbs = verbs
        scq = cq.handle if cq else 0
        body = struct.pack("=QIIIIIIIIIBBBB", 0, domain, scq, 0, 0, 16, 0, 4, 0, 0, 1, kind, 0, 0)
        answer = verbs.command(CREATE_QP, body, 32 + 32)
        self.handle, self.number = struct.unpack_from("=II", answer)
        self.caps = struct.unpack_from("=IIII", answer, 8)
        self.ring = Ring(verbs.fd, answer[48:]) if kind == XRC_INI else None

    def modify(self, state, mask, verbs=None, gid=b"", index=0, dest=0):
        av = gid.ljust(16, b"\0") + struct.pack("=IHHBBBBBBBB", 0, 0, 0, index, 64, 0, 0, 0, 0, 1, 1)
        body = av + bytes(32) + struct.pack(
            "=IIIIIIIHHBBBBBBBBBBBBBBBB", self.handle, STATE | mask, 0, 7, 7, dest, RIGHTS, 0, 0, state, 0, 3, 0,
            0, 4, 4, 1, 1, 14, 7, 7, 0, 0, 0, 0)
        (verbs or self.verbs).command(MODIFY_QP, body, 0)

    def query(self):
        """(state, next number of the peer)."""
        answer = self.verbs.command(QUERY_QP, struct.pack("=II", self.handle, STATE | RQ_PSN), 128)
        return answer[108], struct.unpack_from("=I", answer, 88)[0]

    def destroy(self):
        self.verbs.command(DESTROY_QP, struct.pack("=II", self.handle, 0), 4)

    def send(self, op, srq, sges, remote=None, key=0, ex=0, atomic=(0, 0), wr_id=1):
        total = sum(s[1] for s in sges)
        wr = b""
        if op in (CAS, FAA):
            wr = struct.pack("=QQQI", remote, *atomic, key)
        elif remote is not None:
            wr = struct.pack("=QI", remote, key)
        head = struct.pack("=QIIII", wr_id, srq, op, SIGNALED, ex) + wr.ljust(160, b"\0")
        head += struct.pack("=IIIIII", total, total, 0, len(sges), 0, 0)
        self.ring.push(head + b"".join(struct.pack("=QII", *s) for s in sges))
        self.verbs.command(POST_SEND, struct.pack("=IIII", self.handle, 0, 0, 256), 4)


WAY = AV | MTU | DEST | RQ_PSN


def connect_target(tgt, gid, number):
    """A target, to RTS with the initiator of that number."""
    tgt.modify(INIT, PKEY | PORT | ACCESS)
    tgt.modify(RTR, WAY | ITS_DEPTH | MIN_RNR, gid=gid, index=tgt.verbs.index, dest=number)
    tgt.modify(RTS, TIMEOUT | SQ_PSN)


def connect(ini, tgt):
    a, b = ini.verbs, tgt.verbs
    ini.modify(INIT, PKEY | PORT | ACCESS)
    connect_target(tgt, a.gid, ini.number)
    ini.modify(RTR, WAY, gid=b.gid, index=a.index, dest=tgt.number)
    ini.modify(RTS, TIMEOUT | RETRY | RNR | SQ_PSN | OUR_DEPTH)


class Pair:
    """An initiator of rxe0 and a target of rxe1."""

    def __init__(self, own=False):
        self.a = Verbs("rxe0", "ffff:0a09:0001")
        self.b = self.a if own else Verbs("rxe1", "ffff:0a09:0002")
        self.pd = PD(self.a.ctx)
        self.mr = MR(self.pd, 1 << 17, RIGHTS)
        self.cq = Completions(self.a)
        self.xrcd = self.b.domain()
        self.connect()

    def connect(self):
        self.ini = Qp(self.a, XRC_INI, self.pd.handle, self.cq)
        self.tgt = Qp(self.b, XRC_TGT, self.xrcd)
        connect(self.ini, self.tgt)

    def fill(self, data, at=0):
        self.mr.write(data, len(data), at)

    def status(self):
        return self.cq.next()[1]

    def sge(self, length, at=0):
        return (self.mr.buf + at, length, self.mr.lkey)

    def exchange(self, srq, ex=0x01020304):
        """Every operation with the queue `srq`."""
        n = 0
        for length in (0, 1, 1023, 1024, 1025, 5000, 65536):
            n += 1
            data = os.urandom(length)
            self.fill(data)
            srq.receive(n)
            self.ini.send(SEND_IMM if n % 2 else SEND, srq.number, [self.sge(length)], ex=ex)
            got = srq.cq.next()
            check(f"message of {length}", got, (n, "SUCCESS", 128, length, socket_order(ex) if n % 2 else None,
                                                self.tgt.number))
            check("sent", self.cq.next()[:3], (1, "SUCCESS", 0))
            check(f"bytes of {length}", srq.mr.read(length, 0) == data, True)
            self.ini.send(WRITE, srq.number, [self.sge(length)], srq.mr.buf + 65536, srq.mr.rkey)
            check("written", self.status(), "SUCCESS")
            check("bytes written", srq.mr.read(length, 65536) == data, True)
            self.ini.send(READ, srq.number, [self.sge(length, 65536)], srq.mr.buf + 65536, srq.mr.rkey)
            check("read", self.status(), "SUCCESS")
            check("bytes read", self.mr.read(length, 65536) == data, True)
        self.fill(b"write")
        srq.receive(n + 1)
        self.ini.send(WRITE_IMM, srq.number, [self.sge(5)], srq.mr.buf, srq.mr.rkey, ex=ex)
        check("with immediate data", srq.cq.next()[:5], (n + 1, "SUCCESS", 129, 5, socket_order(ex)))
        check("written", (self.status(), srq.mr.read(5, 0)), ("SUCCESS", b"write"))
        srq.mr.write(struct.pack("=Q", 40), 8, 8)
        self.ini.send(FAA, srq.number, [self.sge(8)], srq.mr.buf + 8, srq.mr.rkey, atomic=(2, 0))
        check("added", (self.status(), struct.unpack("=Q", self.mr.read(8, 0))[0]), ("SUCCESS", 40))
        self.ini.send(CAS, srq.number, [self.sge(8)], srq.mr.buf + 8, srq.mr.rkey, atomic=(42, 7))
        check("swapped", (self.status(), struct.unpack("=Q", self.mr.read(8, 0))[0]), ("SUCCESS", 42))
        check("word", struct.unpack("=Q", srq.mr.read(8, 8))[0], 7)
        check("nothing more", [cq.next() for cq in (self.cq, srq.cq) if not cq.is_empty()], [])


def traffic():
    """Each operation between two devices."""
    pair = Pair()
    check("sizes of the target", pair.tgt.caps, (0, 0, 0, 0))
    pair.exchange(Queue(pair.b, pair.xrcd))


def own_device():
    """Each operation within one device."""
    pair = Pair(own=True)
    pair.exchange(Queue(pair.b, pair.xrcd))


def one_connection_many_queues():
    """One connection reaches the queues of many; each has its own completions and memory."""
    pair = Pair()
    queues = [Queue(pair.b, pair.xrcd) for _ in range(3)]
    for turn in range(20):
        for n, srq in enumerate(queues):
            srq.receive(turn, at=100 * turn, length=100)
            pair.fill(b"%d to %d" % (turn, n), at=100 * n)
        for n, srq in enumerate(queues):
            pair.ini.send(SEND, srq.number, [pair.sge(20, 100 * n)])
        for n, srq in enumerate(queues):
            check("arrived", srq.cq.next()[:4], (turn, "SUCCESS", 128, 20))
            text = b"%d to %d" % (turn, n)
            check("bytes", srq.mr.read(len(text), 100 * turn), text)
            check("sent", pair.status(), "SUCCESS")
    check("each once", [srq.cq.is_empty() for srq in queues], [True] * 3)


def domains():
    """Queues that the target must not be asked for: of another domain, of no domain, gone."""
    pair = Pair()
    other = Queue(pair.b, pair.b.domain())
    gone = Queue(pair.b, pair.xrcd)
    gone.destroy()
    for what, number in (("other domain", other.number), ("gone", gone.number), ("never there", 0xFFFFFF)):
        other.receive(1)
        pair.ini.send(SEND, number, [pair.sge(1)])
        check(what, pair.status(), "REM_INV_REQ_ERR")
        check(what, other.cq.is_empty(), True)
        pair.connect()
    pair.exchange(Queue(pair.b, pair.xrcd))
    # A number of more than 24 bits is none.
    pair.ini.send(SEND, 1 << 24, [pair.sge(1)])
    check("too long", pair.status(), "LOC_QP_OP_ERR")


def rights():
    """The memory that is reached is that of the queue's protection domain."""
    pair = Pair()
    one, two = Queue(pair.b, pair.xrcd), Queue(pair.b, pair.xrcd)
    pair.fill(b"x")
    pair.ini.send(WRITE, one.number, [pair.sge(1)], two.mr.buf, two.mr.rkey)
    check("memory of the other queue", pair.status(), "REM_ACCESS_ERR")
    check("untouched", two.mr.read(1, 0), b"\0")
    pair.connect()
    pair.ini.send(READ, two.number, [pair.sge(1)], one.mr.buf, one.mr.rkey)
    check("memory of the other queue", pair.status(), "REM_ACCESS_ERR")
    pair.connect()
    pair.exchange(two)


def no_receives():
    """The sender waits for a receive of the queue that it names, not of another one."""
    pair = Pair()
    one, two = Queue(pair.b, pair.xrcd), Queue(pair.b, pair.xrcd)
    two.receive(1)
    pair.ini.send(SEND, one.number, [pair.sge(3)])
    time.sleep(0.2)
    check("waits", (pair.cq.is_empty(), two.cq.is_empty()), (True, True))
    one.receive(9)
    check("arrived", one.cq.next()[:2], (9, "SUCCESS"))
    check("sent", pair.status(), "SUCCESS")
    check("not taken", two.cq.is_empty(), True)


def shared():
    """Two contexts share a domain by a file, and a target; it lives until both are gone."""
    pair = Pair()
    with tempfile.TemporaryFile() as f:
        second = Verbs("rxe1", "ffff:0a09:0002")
        pair.xrcd = pair.b.domain(f.fileno())
        pair.connect()
        xrcd = second.domain(f.fileno(), 0)
        srq = Queue(second, xrcd)
        body = struct.pack("=QIIB7x", 0, xrcd, pair.tgt.number, XRC_TGT)
        handle, = struct.unpack_from("=I", second.command(OPEN_QP, body, 32))
        pair.exchange(srq)
        refused("domain in use", errno.EBUSY, pair.b.close_domain, pair.xrcd)
        pair.tgt.destroy()
        pair.exchange(srq)
        second.command(DESTROY_QP, struct.pack("=II", handle, 0), 4)
        pair.ini.send(SEND, srq.number, [pair.sge(1)])
        check("after the last handle", pair.status(), "RETRY_EXC_ERR")


def refused_calls():
    """What an initiator and a target cannot do."""
    pair = Pair()
    srq = Queue(pair.b, pair.xrcd)
    doorbell = struct.pack("=IIII", pair.tgt.handle, 0, 0, 256)
    refused("a target does not send", errno.EINVAL, pair.b.command, POST_SEND, doorbell, 4)
    refused("a target without a domain", errno.EINVAL, Qp, pair.b, XRC_TGT, 0x7777)
    refused("an initiator without completions", errno.EINVAL, Qp, pair.a, XRC_INI, pair.pd.handle)
    # Requests by the command are not looked at: their addresses would be a process's in the kernel.
    for at in (1, 1 << 63, pair.mr.buf, 0xFFFF888000000000):
        wr = struct.pack("=QIIII", 7, 1, SEND, SIGNALED | INLINE, 0).ljust(256, b"\0")
        body = struct.pack("=IIII", pair.ini.handle, 1, 1, 256) + wr + struct.pack("=QII", at, 8, 0)
        pair.a.command(POST_SEND, body, 4)
    check("nothing is sent", pair.cq.is_empty(), True)
    # One that answers is none that asks.
    pair.ini.modify(0, 0)
    other = Qp(pair.b, XRC_TGT, pair.xrcd)
    connect(pair.ini, other)
    pair.tgt = other
    pair.exchange(srq)


def segment(op, tgt, srq, psn):
    """Sends a packet with a full segment to a target, as its initiator would."""
    def ip_udp(fill):
        bth = struct.pack("=BB", op, 0) + b"\xff\xff" + (fill or b"\0")[:1] + tgt.number.to_bytes(3, "big")
        transport = bth + psn.to_bytes(4, "big") + srq.number.to_bytes(4, "big") + bytes(1024)
        length = 8 + len(transport) + 4
        udp = struct.pack(">HHH", 50000, 4791, length) + (fill or bytes(2))
        ip = struct.pack(">BBHHHBB", 0x45, (fill or b"\0")[0], 20 + length, 1, 0x4000, (fill or b"\x40")[0], 17)
        return ip + (fill or bytes(2)) + socket.inet_aton("10.9.0.1") + socket.inet_aton("10.9.0.2") + udp + transport
    # The check leaves out what routers change (IBTA annex A17.3.2).
    icrc = zlib.crc32(bytes([255] * 8) + ip_udp(b"\xff\xff"))
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
        s.sendto(ip_udp(b"") + struct.pack("<I", icrc), ("10.9.0.2", 0))


def half_a_message():
    """A queue goes while a target has the first half of a message for it: nobody is told."""
    first, last = 0xA0, 0xA2
    for how in ("error", "next packet"):
        pair = Pair()
        srq = Queue(pair.b, pair.xrcd)
        srq.receive(1)
        segment(first, pair.tgt, srq, 7)
        end = time.time() + 60
        while pair.tgt.query()[1] != 8 and time.time() < end:
            time.sleep(0.01)
        check("first half", pair.tgt.query(), (RTS, 8))
        srq.destroy()
        if how == "error":
            pair.tgt.modify(ERR, 0)
        else:
            segment(last, pair.tgt, srq, 8)
            while pair.tgt.query()[0] != ERR and time.time() < end:
                time.sleep(0.01)
        check(how, pair.tgt.query()[0], ERR)
        time.sleep(0.2)
        check("nothing is told", srq.cq.is_empty(), True)
        pair.connect()
        pair.exchange(Queue(pair.b, pair.xrcd))


CASES = {f.__name__: f for f in (
    traffic, own_device, one_connection_many_queues, domains, rights, no_receives, shared, half_a_message)}
CASES["refused"] = refused_calls
if __name__ == "__main__":
    for name in sys.argv[1:]:
        CASES[name]()
        print(f"{name}: ok")
