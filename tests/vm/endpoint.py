# SPDX-License-Identifier: GPL-2.0
"""A queue pair with memory, for tests that move data: Endpoint."""
import errno
import gc
import os
import socket
import struct
import time

gc.disable()    # pyverbs 56.1 under Python 3.13: a cyclic pass can crash
import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR

QKEY = 0x11111111
GRH = 40
RIGHTS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE
          | e.IBV_ACCESS_REMOTE_ATOMIC)
FLUSH = e.IBV_ACCESS_FLUSH_GLOBAL | e.IBV_ACCESS_FLUSH_PERSISTENT
KINDS = {"rc": e.IBV_QPT_RC, "uc": e.IBV_QPT_UC, "ud": e.IBV_QPT_UD}
SENDS = {
    "rc": (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM | e.IBV_QP_EX_WITH_SEND_WITH_INV
           | e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | e.IBV_QP_EX_WITH_RDMA_READ
           | e.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
           | e.IBV_QP_EX_WITH_ATOMIC_WRITE | e.IBV_QP_EX_WITH_FLUSH | e.IBV_QP_EX_WITH_BIND_MW
           | e.IBV_QP_EX_WITH_LOCAL_INV),
    "uc": (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM | e.IBV_QP_EX_WITH_RDMA_WRITE
           | e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM),
    "ud": e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM,
}
STATUS = {v: k[len("IBV_WC_"):] for k, v in vars(e).items() if k.startswith("IBV_WC_") and k.endswith(
    ("SUCCESS", "_ERR"))}


def check(what, got, want):
    """Ends the program unless two values are equal."""
    if got != want:
        raise SystemExit(f"{what}: {got!r}, not {want!r}")


def refused(what, number, call, *args):
    """Ends the program unless a call fails with this errno."""
    try:
        call(*args)
    except OSError as err:
        check(what, errno.errorcode.get(err.errno), errno.errorcode[number])
    else:
        raise SystemExit(f"{what}: no error")


def gid_index(device, address):
    """Index of the GID that holds an address, as sysfs writes it (or a part of it)."""
    for i in range(32):
        try:
            with open(f"/sys/class/infiniband/{device}/ports/1/gids/{i}") as f:
                if address in f.read():
                    return i
        except OSError:
            pass
    raise SystemExit(f"{device} has no GID of {address}")


def uverbs_fd():
    """The file by which this process speaks to a device."""
    return next(int(f) for f in os.listdir("/proc/self/fd") if "uverbs" in os.path.realpath(f"/proc/self/fd/{f}"))


def group(fd, command, gid, handles=range(64)):
    """ATTACH_MCAST (30) or DETACH_MCAST (31), for which pyverbs has no call, of the first handle that is a queue
    pair's: (errno, handle)."""
    for handle in handles:
        cmd = struct.pack("=IHH16sIHH", command, 8, 0, gid, handle, 0, 0)
        try:
            os.write(fd, cmd)
            return 0, handle
        except OSError as err:
            last = err.errno
    return last, None


class Endpoint:
    """A queue pair (kind rc, uc or ud) of a device with a region of memory.

    `info()` is what the peer's `connect()` needs; `connect(ep.info())` connects it to itself.
    """

    def __init__(self, device, gid, kind="rc", size=65536, mtu=1024, access=RIGHTS, depth=64, srq=None, ctx=None, pd=None,
                 rights=RIGHTS | FLUSH, **attrs):
        self.ctx = ctx or Context(name=device)
        self.kind = kind
        self.index = gid
        self.gid = self.ctx.query_gid(1, gid)
        self.mtu = getattr(e, f"IBV_MTU_{mtu}")
        self.pd = pd or PD(self.ctx)
        self.cq = CQ(self.ctx, 4 * depth)
        self.mr = MR(self.pd, size, access)
        self.rights = rights
        self.attrs = {"max_rd_atomic": 4, "max_dest_rd_atomic": 4, "timeout": 14, "retry_cnt": 7, "rnr_retry": 7,
                      "min_rnr_timer": 12, **attrs}
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=4, max_recv_sge=4, max_inline_data=64)
        init = QPInitAttrEx(cap=cap, qp_type=KINDS[kind], scq=self.cq, rcq=self.cq, srq=srq, pd=self.pd,
                            send_ops_flags=SENDS[kind],
                            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
        self.qp = QPEx(self.ctx, init, QPAttr(port_num=1))
        self.peer = self.ah = None

    def close(self):
        for thing in (self.ah, self.qp, self.cq, self.mr):
            if thing:
                thing.close()

    def info(self):
        return {"qpn": self.qp.qp_num, "gid": str(self.gid), "addr": self.mr.buf, "key": self.mr.rkey}

    def connect(self, peer, state="rts"):
        """To RTS (or RTR) with the peer; a queue pair that is in use starts anew."""
        self.peer = peer
        self.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        attr = QPAttr(port_num=1)
        route = GlobalRoute(dgid=self._gid(peer["gid"]), sgid_index=self.index)
        ah = AHAttr(port_num=1, is_global=1, gr=route)
        if self.kind == "ud":
            attr.qkey = QKEY
            if self.ah:
                self.ah.close()
            self.ah = AH(self.pd, attr=ah)
        else:
            attr.qp_access_flags = self.rights
            attr.dest_qp_num = peer["qpn"]
            attr.path_mtu = self.mtu
            for name, value in self.attrs.items():
                setattr(attr, name, value)
            attr.ah_attr = ah
        if state == "rts":
            self.qp.to_rts(attr)
        else:
            self.qp.to_rtr(attr)

    @staticmethod
    def _gid(text):
        from pyverbs.addr import GID
        return GID(text)

    def gid_bytes(self):
        return socket.inet_pton(socket.AF_INET6, str(self.gid))

    def state(self):
        return self.qp.query(e.IBV_QP_STATE)[0].qp_state

    def sge(self, length, at=0, key=None):
        return SGE(self.mr.buf + at, length, self.mr.lkey if key is None else key)

    def recv(self, length, at=0, key=None, wr_id=0):
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[self.sge(length, at, key)]))

    def post(self, op, length=0, at=0, to=0, wr_id=0, key=None, raddr=None, rkey=None, imm=0, value=None, lists=None):
        """Posts a request: `op` is one of the methods wr_* of an extended queue pair without that, `to` an
        offset in the peer's memory."""
        qp, peer = self.qp, self.peer
        raddr = peer["addr"] + to if raddr is None else raddr
        rkey = peer["key"] if rkey is None else rkey
        qp.wr_start()
        qp.wr_id = wr_id
        qp.wr_flags = e.IBV_SEND_SIGNALED
        fill = True
        if op == "send":
            qp.wr_send()
        elif op == "send_imm":
            qp.wr_send_imm(imm)
        elif op == "send_inv":
            qp.wr_send_inv(imm)
        elif op == "write":
            qp.wr_rdma_write(rkey, raddr)
        elif op == "write_imm":
            qp.wr_rdma_write_imm(rkey, raddr, imm)
        elif op == "read":
            qp.wr_rdma_read(rkey, raddr)
        elif op == "cas":
            qp.wr_atomic_cmp_swp(rkey, raddr, *value)
        elif op == "add":
            qp.wr_atomic_fetch_add(rkey, raddr, value)
        elif op == "atomic_write":
            qp.wr_atomic_write(rkey, raddr, value)
            fill = False
        elif op == "flush":
            qp.wr_flush(rkey, raddr, length, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)
            fill = False
        elif op == "local_inv":
            qp.wr_local_inv(imm)
            fill = False
        else:
            raise ValueError(op)
        if self.kind == "ud":
            qp.wr_set_ud_addr(self.ah, peer["qpn"], QKEY)
        if fill:
            if lists is not None:
                qp.wr_set_sge_list(len(lists), lists)
            else:
                qp.wr_set_sge(self.sge(length, at, key))
        qp.wr_complete()

    def wait(self, count=1, seconds=30):
        """The next completions; fewer if they do not come in time."""
        got, end, pause = [], time.monotonic() + seconds, 0.0001
        while len(got) < count:
            n, wcs = self.cq.poll(count - len(got))
            got += wcs
            if n:
                pause = 0.0001
            elif time.monotonic() > end:
                break
            else:
                time.sleep(pause)
                pause = min(2 * pause, 0.02)
        return got

    def statuses(self, count=1, seconds=30):
        """As `wait`, their names."""
        return [STATUS.get(wc.status, wc.status) for wc in self.wait(count, seconds)]
