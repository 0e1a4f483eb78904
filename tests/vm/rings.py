#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rings.py SECONDS [SEED]: a process that writes nonsense into the rings of its
queues, while another one uses the device as it should.

The hostile process has queue pairs that are connected to themselves. Into
their rings, and that of a shared receive queue and of the completion queue, it
writes requests with random faults, indices and headers, and rings the doorbell.
A child of it changes random words all the time, also of requests that the
kernel is executing. The honest process sends and checks; nothing may disturb it.
RINGS_TIMEOUT and RINGS_RETRIES in the environment are those of its queue pair.
"""
import ctypes
import gc
import os
import random
import re
import signal
import struct
import sys
import time

gc.disable()    # pyverbs 56.1 under Python 3.13: a cyclic pass can crash
import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from endpoint import RIGHTS, gid_index, uverbs_fd

DEV = "rxe0"
HEAD, PRODUCER, CONSUMER = 384, 128, 256
POST_SEND = 28
ODD = (0, 1, 2, 31, 32, 33, 0x7F, 0x80, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF8, 0xFFFFFFFF)


class Side:
    """A queue pair that is connected to itself."""

    def __init__(self, ctx, pd, kind=e.IBV_QPT_RC, srq=None):
        self.cq = CQ(ctx, 256)
        self.mr = MR(pd, 65536, RIGHTS)
        cap = QPCap(max_send_wr=64, max_recv_wr=64, max_send_sge=4, max_recv_sge=4, max_inline_data=64)
        init = QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, srq=srq, cap=cap, sq_sig_all=1)
        self.kind = kind
        self.qp = QP(pd, init, QPAttr(port_num=1))
        self.index = gid_index(DEV, "ffff:0a09")
        self.gid = ctx.query_gid(1, self.index)

    def connect(self, timeout=8, retries=2):
        self.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        attr = QPAttr(port_num=1)
        if self.kind == e.IBV_QPT_UD:
            attr.qkey = 0x11111111
        else:
            attr.qp_access_flags = RIGHTS
            attr.dest_qp_num = self.qp.qp_num
            attr.path_mtu = e.IBV_MTU_1024
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
            attr.min_rnr_timer = 1
            attr.timeout, attr.retry_cnt, attr.rnr_retry = timeout, retries, 2
            route = GlobalRoute(dgid=self.gid, sgid_index=self.index)
            attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        self.qp.to_rts(attr)


def honest(seconds, seed, going_on=lambda: True):
    """Sends to itself and compares, for that long or until it is told to stop."""
    rng = random.Random(seed)
    ctx = Context(name=DEV)
    side = Side(ctx, PD(ctx))
    side.connect(int(os.environ.get("RINGS_TIMEOUT", "8")), int(os.environ.get("RINGS_RETRIES", "2")))
    end, count, worst = time.time() + seconds, 0, 0
    while time.time() < end and going_on():
        size = rng.choice((1, 100, 1024, 1025, 5000, 16000))
        data = rng.randbytes(size)
        side.mr.write(data, size)
        side.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(side.mr.buf + 32768, size, side.mr.lkey)]))
        sge = SGE(side.mr.buf, size, side.mr.lkey)
        start = time.monotonic()
        side.qp.post_send(SendWR(num_sge=1, sg=[sge], opcode=e.IBV_WR_SEND))
        got, limit = [], time.time() + 30
        while len(got) < 2:
            n, wcs = side.cq.poll(2)
            got += wcs
            if not n:
                if time.time() > limit:
                    raise SystemExit("the honest process waits in vain")
                time.sleep(0.001)
        worst = max(worst, time.monotonic() - start)
        bad = [wc.status for wc in got if wc.status != e.IBV_WC_SUCCESS]
        if bad:
            raise SystemExit(f"the honest process got status {bad} after {time.monotonic() - start:.3f} s and {count} messages, "
                             f"the slowest of which took {worst:.3f} s")
        if side.mr.read(size, 32768) != data:
            raise SystemExit("the honest process got wrong bytes")
        count += 1
    print(f"honest: {count} messages, the slowest took {worst:.3f} s")
    if not count:
        raise SystemExit("the honest process sent nothing")


def rings():
    """(address, bytes) of all rings that are mapped."""
    with open("/proc/self/maps") as f:
        for line in f:
            m = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw-s .*uverbs", line)
            if m:
                start = int(m[1], 16)
                yield start, int(m[2], 16) - start


def word(addr, value=None):
    cell = ctypes.c_uint32.from_address(addr)
    if value is not None:
        cell.value = value & 0xFFFFFFFF
    return cell.value


def send_request(rng, side):
    """The bytes of a send request, most of them right."""
    opcode = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15, 0x20, rng.getrandbits(8), rng.getrandbits(32)))
    flags = rng.choice((2, 2, 3, 10, 8, rng.getrandbits(5)))
    addr, key = side.mr.buf + 8 * rng.randrange(4096), side.mr.lkey
    count = rng.choice((0, 1, 1, 2, 4, rng.choice(ODD)))
    length = rng.choice((0, 8, 8, 64, 1024, 5000, rng.choice(ODD)))
    head = bytearray(struct.pack("=QIIII", rng.getrandbits(64), 0, opcode, flags, rng.getrandbits(32)))
    if side.kind == e.IBV_QPT_UD:
        wr = struct.pack("=IIHHI", side.qp.qp_num, 0x11111111, 0, 0, rng.choice((0, 0, 1, 2, rng.getrandbits(32))))
        wr += bytes(16) + bytes((1, rng.choice((1, 2, rng.getrandbits(8))))) + rng.randbytes(86)
    elif opcode in (5, 6):
        wr = struct.pack("=QQQI", addr, rng.getrandbits(64), rng.getrandbits(64), key)
    elif opcode == 8:
        wr = struct.pack("=QQIIII", addr, rng.choice((8, 4096, rng.getrandbits(64))), key, rng.getrandbits(32), rng.getrandbits(32),
                         rng.getrandbits(8))
    else:
        wr = struct.pack("=QII", addr, key, rng.getrandbits(32))
    head += wr.ljust(120, b"\0") + rng.randbytes(40)
    head += struct.pack("=IIIIII", length, *(rng.choice(ODD) for _ in range(2)), count, *(rng.choice(ODD) for _ in range(2)))
    return bytes(head) + entries(rng, side, length)


def entries(rng, side, length):
    out = b""
    for _ in range(4):
        addr = rng.choice((side.mr.buf + rng.randrange(60000), rng.getrandbits(64)))
        size = rng.choice((length, length, 8, rng.choice(ODD)))
        out += struct.pack("=QII", addr, size & 0xFFFFFFFF, rng.choice((side.mr.lkey, side.mr.lkey, rng.getrandbits(32))))
    return out


def recv_request(rng, side):
    count = rng.choice((0, 1, 2, 4, rng.choice(ODD)))
    fields = [rng.choice(ODD) for _ in range(6)]
    fields[3] = count
    return struct.pack("=QQ6I", rng.getrandbits(64), 0, *fields) + entries(rng, side, 4096)


def flip(targets, seed):
    """Changes random words until it is killed."""
    rng = random.Random(seed)
    while True:
        addr, size = rng.choice(targets)
        if rng.random() < 0.2:
            at = rng.choice((PRODUCER, CONSUMER))
            word(addr + at, rng.choice((word(addr + at) + 1, rng.choice(ODD), rng.getrandbits(32))))
        else:
            at = HEAD + 4 * rng.randrange((size - HEAD) // 4)
            word(addr + at, rng.choice((rng.choice(ODD), rng.getrandbits(32))))


def hostile(seconds, seed):
    rng = random.Random(seed)
    ctx = Context(name=DEV)
    pd = PD(ctx)
    srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=64, max_sge=4)))
    sides = [Side(ctx, pd), Side(ctx, pd, e.IBV_QPT_UC), Side(ctx, pd, e.IBV_QPT_UD), Side(ctx, pd, srq=srq)]
    targets = [(addr, size, word(addr), word(addr + 4)) for addr, size in rings()]
    if len(targets) < 4:
        raise SystemExit(f"only {len(targets)} rings are mapped")
    fd = uverbs_fd()
    child = os.fork()
    if not child:
        flip([(addr, size) for addr, size, _, _ in targets], seed + 1)
    resp = ctypes.create_string_buffer(8)
    end, count, resets = time.time() + seconds, 0, 0
    while time.time() < end:
        for side in sides:
            try:
                side.connect()
                resets += 1
            except Exception:   # the queue pair is busy failing
                pass
        for _ in range(50):
            addr, size, shift, mask = rng.choice(targets)
            side = rng.choice(sides)
            slot = word(addr + PRODUCER) & mask
            request = rng.choice((send_request, recv_request))(rng, side)[:1 << shift]
            ctypes.memmove(addr + HEAD + (slot << shift), request, len(request))
            word(addr + PRODUCER, slot + 1 if rng.random() < 0.9 else rng.getrandbits(32))
            for handle in range(4 * len(sides)):
                cmd = struct.pack("=IHHQIIII", POST_SEND, 8, 1, ctypes.addressof(resp), handle, 0, 0, 256)
                try:
                    os.write(fd, cmd)
                except OSError:
                    pass
            count += 1
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(f"hostile: {count} requests, {resets} connections, {len(targets)} rings")


def process(work, *args):
    """Starts a process that does it and says what fails; its pid."""
    pid = os.fork()
    if not pid:
        try:
            work(*args)
            sys.stdout.flush()
            os._exit(0)
        except BaseException as err:
            print(f"{work.__name__}: {err!r}", flush=True)
            os._exit(1)
    return pid


def main():
    seconds = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    children = []
    for work in (honest, hostile):
        children.append((work.__name__, process(work, seconds, seed)))
    failed = []
    for name, pid in children:
        _, status = os.waitpid(pid, 0)
        if status:
            failed.append(f"{name} ended with {os.waitstatus_to_exitcode(status)}")
    if failed:
        raise SystemExit(", ".join(failed))


if __name__ == "__main__":
    main()
