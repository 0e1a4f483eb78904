#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rxe_mcast.py GROUP: datagrams to a group, to members on the sender's device.

Each member gets each datagram once, whether the sender is one of them or not,
whether it was attached twice, and whether it came before or after the first
datagram that was sent.
"""
import errno
import gc
import os
import socket
import struct
import sys
import time

gc.disable()    # pyverbs 56.1 under Python 3.13: a cyclic pass can crash
import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from endpoint import QKEY, gid_index

SLOT, DEPTH = 256, 16
group = socket.inet_pton(socket.AF_INET6, sys.argv[1])
is_ipv4 = group[:12] == bytes(10) + b"\xff\xff"
ATTACH, DETACH = 30, 31


def gid():
    return GID(":".join(group[i:i + 2].hex() for i in range(0, 16, 2)))


class Member:
    """A queue pair with a file of its own, in which it is the only object of its kind."""

    def __init__(self):
        self.ctx = Context(name="rxe0")
        self.pd = PD(self.ctx)
        self.cq = CQ(self.ctx, 64)
        self.mr = MR(self.pd, SLOT * (DEPTH + 1), e.IBV_ACCESS_LOCAL_WRITE)
        cap = QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1)
        attr = QPAttr(port_num=1)
        attr.qkey = QKEY
        self.qp = QP(self.pd, init, attr)
        route = GlobalRoute(dgid=gid(), sgid_index=gid_index("rxe0", "ffff:0a09" if is_ipv4 else "fd00"))
        self.way = AH(self.pd, attr=AHAttr(port_num=1, is_global=1, gr=route))
        for i in range(DEPTH):
            self.qp.post_recv(RecvWR(wr_id=i, num_sge=1, sg=[SGE(self.mr.buf + i * SLOT, SLOT, self.mr.lkey)]))

    # The library of Python has no call for it.
    def member(self, command):
        """0 or errno. Other handles than that of the queue pair are no queue pairs."""
        last = errno.EINVAL
        for handle in range(16):
            try:
                os.write(self.ctx.cmd_fd, struct.pack("=IHH16sIHH", command, 8, 0, group, handle, 0, 0))
                return 0
            except OSError as err:
                last = err.errno
        return last

    def attach(self):
        if failed := self.member(ATTACH):
            raise SystemExit(f"attach: {errno.errorcode[failed]}")

    def detach(self):
        return self.member(DETACH)

    def send(self, text):
        at = SLOT * DEPTH
        self.mr.write(text, len(text), at)
        wr = SendWR(wr_id=99, num_sge=1, sg=[SGE(self.mr.buf + at, len(text), self.mr.lkey)], opcode=e.IBV_WR_SEND)
        wr.set_wr_ud(self.way, 0xFFFFFF, QKEY)
        self.qp.post_send(wr)

    def received(self):
        """The texts that have come, without waiting."""
        texts = []
        while True:
            n, wcs = self.cq.poll(1)
            if not n:
                return texts
            if wcs[0].status:
                raise SystemExit(f"status {wcs[0].status}")
            if wcs[0].opcode & e.IBV_WC_RECV:
                slot = wcs[0].wr_id
                texts.append(bytes(self.mr.read(wcs[0].byte_len - 40, slot * SLOT + 40)))


def expect(step, wanted):
    """WANTED: [(member, texts)]; nothing more may come within half a second after the last one."""
    got = [[] for _ in wanted]
    end = time.time() + 30
    while any(len(g) < len(w[1]) for g, w in zip(got, wanted)) and time.time() < end:
        for g, (member, _) in zip(got, wanted):
            g += member.received()
        time.sleep(0.01)
    time.sleep(0.5)
    for i, (g, (member, texts)) in enumerate(zip(got, wanted)):
        g += member.received()
        if g != texts:
            raise SystemExit(f"{step}: member {i} got {g}, not {texts}")


a, b, c = Member(), Member(), Member()
a.send(b"nobody")
expect("before", [(a, []), (b, []), (c, [])])
b.attach()
b.attach()
a.send(b"one")
expect("one member, attached twice", [(a, []), (b, [b"one"]), (c, [])])
c.attach()
a.attach()
a.send(b"two")
expect("the sender is a member", [(a, [b"two"]), (b, [b"two"]), (c, [b"two"])])
if b.detach() or not b.detach():
    raise SystemExit("detached not once")
c.send(b"three")
expect("without one", [(a, [b"three"]), (b, []), (c, [b"three"])])
if a.detach() or c.detach():
    raise SystemExit("detach")
a.send(b"four")
expect("after", [(a, []), (b, []), (c, [])])
sys.stdout.flush()
os._exit(0)
