#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""objects.py DEVICE READY: one object of each kind, held until a signal comes.
Creates READY when they exist, so that the tests know when to look.

objects.py DEVICE --kill N: does that N times, in processes that are killed.
"""
import gc
import os
import signal
import sys

gc.disable()    # pyverbs 56.1 under Python 3.13: a cyclic pass can crash
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
import pyverbs.enums as e


def create(device):
    ctx = Context(name=device)
    pd = PD(ctx)
    mr = MR(pd, 8192, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ)
    channel = CompChannel(ctx)
    cq = CQ(ctx, 64, channel=channel)
    srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=16)))
    cap = QPCap(max_send_wr=8, max_recv_wr=8)
    qps = [QP(pd, QPInitAttr(qp_type=t, scq=cq, rcq=cq, cap=cap))
           for t in (e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD)]
    qps.append(QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, srq=srq, cap=cap)))
    return ctx, pd, mr, channel, cq, srq, qps


if sys.argv[2] == "--kill":
    for _ in range(int(sys.argv[3])):
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            held = create(sys.argv[1])
            os.write(w, b"x")
            signal.pause()
        os.close(w)
        ready = os.read(r, 1)
        os.close(r)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if not ready:
            sys.exit("no objects")
else:
    held = create(sys.argv[1])
    open(sys.argv[2], "w").close()
    signal.pause()
