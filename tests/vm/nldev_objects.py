#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""nldev_objects.py DEVICE COUNT: holds verbs objects of all kinds until it is killed."""
import sys
import time

import pyverbs.device
import pyverbs.enums as e
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

name, count = sys.argv[1], int(sys.argv[2])
ctx = pyverbs.device.Context(name=name)
pds = [PD(ctx) for _ in range(1 + count)]
mrs = [MR(pds[0], 8192, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ) for _ in range(1 + count)]
channel = CompChannel(ctx)
cqs = [CQ(ctx, 64, channel=channel) for _ in range(1 + count)]
srq = SRQ(pds[0], SrqInitAttr(SrqAttr(max_wr=16)))
cap = QPCap(max_send_wr=8, max_recv_wr=8)
qps = [QP(pds[0], QPInitAttr(qp_type=t, scq=cqs[0], rcq=cqs[0], cap=cap))
       for t in (e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD)]
qps += [QP(pds[0], QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cqs[0], rcq=cqs[0], srq=srq, cap=cap))
        for _ in range(3)]
# A gap in the numbers of the queue pairs on the SRQ.
spare = QP(pds[0], QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cqs[0], rcq=cqs[0], cap=cap))
qps += [QP(pds[0], QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cqs[0], rcq=cqs[0], srq=srq, cap=cap))
        for _ in range(2 + count)]
for qp in qps[:2] + qps[3:5]:
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = e.IBV_ACCESS_REMOTE_READ
    qp.to_init(attr)
print("ready", flush=True)
time.sleep(3600)
