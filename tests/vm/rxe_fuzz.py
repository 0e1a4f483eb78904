#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rxe_fuzz.py SENDER PACKETS [SEED]: the targets of rxe_fuzz.c, and what must not be hit.

The targets are queue pairs that wait for requests, and such whose own requests nobody answers, so
that there is something outstanding which forged answers may fit. One that ends in an error is
started anew. Beside them a process sends to itself and compares (rings.py); memory beside the
region, and a region without rights for the peer, must stay as they are.
"""
import ctypes
import gc
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

gc.disable()    # pyverbs 56.1 under Python 3.13: a cyclic pass can crash
import rings
import rxe_xrc as xrc
from endpoint import QKEY, RIGHTS, Endpoint, e, gid_index
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError

DEV = "rxe0"
PAGE = 4096
GUARD, REGION = 4 * PAGE, 8 * PAGE
NOBODY = 0xFFFFF0       # no queue pair has this number
PSN = 1000
TARGET = "=IIIIQIIIII4x"    # struct target of rxe_fuzz.c
SERVICE = {"rc": 0x00, "uc": 0x20, "ud": 0x60, "xrc": 0xa0}
DEPTH = 64


class Memory:
    """A region of a domain between guards, and one without rights for the peer."""

    def __init__(self, pd):
        self.area = mmap.mmap(-1, GUARD + REGION + GUARD)
        self.area[:] = b"\xa5" * len(self.area)
        self.mr = MR(pd, REGION, RIGHTS, address=ctypes.addressof(ctypes.c_char.from_buffer(self.area)) + GUARD)
        self.deaf = MR(pd, REGION, e.IBV_ACCESS_LOCAL_WRITE)
        self.deaf.write(b"\xa5" * REGION, REGION)

    def check(self, what):
        if self.area[:GUARD] != b"\xa5" * GUARD or self.area[GUARD + REGION:] != b"\xa5" * GUARD:
            raise SystemExit(f"{what}: memory beside the region was written to")
        if self.deaf.read(REGION, 0) != b"\xa5" * REGION:
            raise SystemExit(f"{what}: a region without remote rights was written to")


def entry(memory, kind, qpn, psn, spread, srq=0):
    """What the sender is to know of a target."""
    mr = memory.mr
    return struct.pack(TARGET, qpn, psn, spread, SERVICE[kind], mr.buf, REGION, mr.rkey, memory.deaf.rkey, QKEY, srq)


def started(kind, start):
    """Calls `start` until no packet has ended the queue pair between two states."""
    for _ in range(100):
        try:
            return start()
        except (PyverbsRDMAError, OSError):
            pass
    raise SystemExit(f"{kind}: cannot be started anew")


class Target:
    """A queue pair whose peer is the sender."""

    def __init__(self, ctx, pd, index, kind, asks=False):
        self.asks = asks
        self.starts = 0
        self.ep = Endpoint(DEV, index, kind, ctx=ctx, pd=pd, timeout=0, rq_psn=PSN, sq_psn=PSN, depth=DEPTH)
        self.kind = kind
        self.memory = Memory(pd)
        self.ep.mr.close()
        self.ep.mr = self.memory.mr

    def start(self):
        ep = self.ep
        peer = {"qpn": NOBODY, "gid": str(ep.gid), "addr": ep.mr.buf, "key": ep.mr.rkey}
        started(self.kind, lambda: ep.connect(peer))
        while ep.cq.poll(64)[0]:
            pass
        for n in range(DEPTH - 1):
            ep.recv(2048, 64 * n)
        if self.asks:
            for n in range(8):
                ep.post("read", 3000, at=1000 * n)
                ep.post("send", 2500, at=1000 * n)
                ep.post("add", 8, at=8 * n, value=1)
                ep.post("write", 1024, at=1000 * n)
        self.starts += 1

    def look(self):
        """Starts it anew if it has ended."""
        ep = self.ep
        while True:
            n, wcs = ep.cq.poll(64)
            if not n:
                break
            for wc in wcs:
                if wc.status == e.IBV_WC_SUCCESS and wc.opcode & e.IBV_WC_RECV:
                    ep.recv(2048)
        if ep.state() != e.IBV_QPS_RTS:
            self.start()

    def entry(self):
        waits_for = self.ep.qp.query(e.IBV_QP_RQ_PSN)[0].rq_psn
        psn, spread = (PSN, 80) if self.asks else (waits_for, 2)
        return entry(self.memory, self.kind, self.ep.qp.qp_num, psn, spread)


class XrcTarget:
    """As Target, of an extended connection, with a queue that takes what is sent to it."""
    kind = "xrc"

    def __init__(self):
        self.starts = 0
        self.verbs = xrc.Verbs(DEV, "ffff:0a09")
        domain = self.verbs.domain()
        self.queue = xrc.Queue(self.verbs, domain)
        self.memory = Memory(self.queue.pd)
        self.queue.mr = self.memory.mr
        self.qp = xrc.Qp(self.verbs, xrc.XRC_TGT, domain)

    def start(self):
        def start():
            self.qp.modify(xrc.RESET, 0)
            xrc.connect_target(self.qp, self.verbs.gid, NOBODY)
        started(self.kind, start)
        self.starts += 1

    def look(self):
        while self.queue.cq.ring.pop():
            pass
        for _ in range(xrc.RECEIVES - self.queue.ring.waiting()):
            self.queue.receive(0, length=2048)
        if self.qp.query()[0] != xrc.RTS:
            self.start()

    def entry(self):
        return entry(self.memory, self.kind, self.qp.number, self.qp.query()[1], 2, self.queue.number)


def arrived():
    """Packets that d0 has handed up, and those of them that the device has taken for queue pairs."""
    counts = []
    for path in ("/sys/class/net/d0/statistics/rx_packets", f"/sys/class/infiniband/{DEV}/ports/1/hw_counters/rcvd_pkts"):
        with open(path) as f:
            counts.append(int(f.read()))
    return counts


def attack(sender, count, seed):
    ctx = Context(name=DEV)
    pd = PD(ctx)
    index = gid_index(DEV, "ffff:0a09")
    targets = [Target(ctx, pd, index, kind, asks) for kind, asks in
               (("rc", False), ("rc", False), ("uc", False), ("ud", False), ("rc", True), ("rc", True))]
    targets.append(XrcTarget())
    before, began = arrived(), time.monotonic()
    with tempfile.NamedTemporaryFile() as f:
        f.write(bytes(struct.calcsize(TARGET) * len(targets)))
        f.flush()
        shared = mmap.mmap(f.fileno(), 0)

        def publish(n):
            size = struct.calcsize(TARGET)
            shared[n * size:(n + 1) * size] = targets[n].entry()

        for n, target in enumerate(targets):
            target.start()
            target.look()
            publish(n)
        child = subprocess.Popen([sender, "p0", f.name, str(count), str(seed)])
        try:
            while child.poll() is None:
                for n, target in enumerate(targets):
                    target.look()
                    publish(n)
        finally:
            child.kill()
    if child.returncode:
        raise SystemExit(f"the sender ended with {child.returncode}")
    for target in targets:
        target.memory.check(target.kind)
    seconds = time.monotonic() - began
    got, taken = (new - old for new, old in zip(arrived(), before))
    starts = [target.starts for target in targets]
    print(f"{count} packets sent in {seconds:.0f} s, {got} arrived, {taken} taken with the other process's; "
          f"the queue pairs were started {starts} times")
    # Of the connected ones every one has to refuse something now and then.
    if got < count or min(n for n, target in zip(starts, targets) if target.kind in ("rc", "xrc")) < 3:
        raise SystemExit("the packets did not get to where they should")


def honest(seed):
    """Until it is terminated."""
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    rings.honest(1 << 20, seed, lambda: not stop)


def main():
    sender, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    pid = rings.process(honest, seed)
    try:
        attack(sender, count, seed)
    finally:
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit("the honest process was disturbed")


if __name__ == "__main__":
    main()
