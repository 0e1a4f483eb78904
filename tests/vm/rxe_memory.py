#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rxe_memory.py CASE...: regions that the distribution's rdma_rxe does not have.

One queue pair of rxe0 writes and reads at another one by their keys.
What the library of rxe has no call for goes to the kernel as it is.
"""
import ctypes
import errno
import fcntl
import gc
import mmap
import os
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
from pyverbs.wr import SGE, RecvWR, SendWR

from endpoint import check, gid_index, refused

DEV = "rxe0"
LOCAL, WRITE, READ, ATOMIC = (e.IBV_ACCESS_LOCAL_WRITE, e.IBV_ACCESS_REMOTE_WRITE,
                              e.IBV_ACCESS_REMOTE_READ, e.IBV_ACCESS_REMOTE_ATOMIC)
ALL = LOCAL | WRITE | READ | ATOMIC
OK, DENIED, BROKEN = e.IBV_WC_SUCCESS, e.IBV_WC_REM_ACCESS_ERR, e.IBV_WC_REM_OP_ERR
PAGE, PRIVATE = 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
REREG_MR, TRANS, DOMAIN, RIGHTS = 11, 1, 2, 4
IOCTL = 3 << 30 | 24 << 16 | 0x1B << 8 | 1
OBJECT_MR, MR_DESTROY, REG_DMABUF_MR = 7, 1, 4


class Loop:
    """A queue pair that asks, one that answers, and some memory of the one that asks."""

    def __init__(self):
        self.ctx = Context(name=DEV)
        self.pd = PD(self.ctx)
        self.mr = MR(self.pd, 1 << 20, ALL)
        self.cqs = [CQ(self.ctx, 64) for _ in range(2)]
        cap = QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=4, max_recv_sge=4)
        self.qp, self.peer = (
            QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=1), QPAttr(port_num=1))
            for cq in self.cqs)
        self.connect()

    def connect(self):
        index = gid_index(DEV, "ffff:0a09")
        gid = self.ctx.query_gid(1, index)
        for qp in (self.qp, self.peer):
            qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        for qp, other in ((self.peer, self.qp), (self.qp, self.peer)):
            attr = QPAttr(port_num=1)
            attr.qp_access_flags = ALL
            attr.dest_qp_num = other.qp_num
            attr.path_mtu = e.IBV_MTU_1024
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
            attr.min_rnr_timer = 1
            attr.timeout, attr.retry_cnt, attr.rnr_retry = 18, 7, 7
            attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=index))
            qp.to_rts(attr)

    def wait(self, side=0):
        """The status of the next completion. After an error both are connected anew."""
        end = time.time() + 60
        while True:
            n, wcs = self.cqs[side].poll(1)
            if n:
                break
            if time.time() > end:
                raise SystemExit("no completion")
            time.sleep(0.001)
        if wcs[0].status != OK:
            self.connect()
        return wcs[0].status

    def post(self, opcode, sge, address, key):
        wr = SendWR(num_sge=1, sg=[sge], opcode=opcode)
        wr.set_wr_rdma(key, address)
        self.qp.post_send(wr)
        return self.wait()

    def put(self, address, key, data):
        """Writes to memory of a peer; the status."""
        self.mr.write(data, len(data))
        return self.post(e.IBV_WR_RDMA_WRITE, SGE(self.mr.buf, len(data), self.mr.lkey), address, key)

    def get(self, address, key, size):
        """Reads memory of a peer: the bytes, or the status."""
        at = 1 << 19
        self.mr.write(bytes(size), size, at)
        status = self.post(e.IBV_WR_RDMA_READ, SGE(self.mr.buf + at, size, self.mr.lkey), address, key)
        return self.mr.read(size, at) if status == OK else status

    def add(self, address, key, value):
        wr = SendWR(num_sge=1, sg=[SGE(self.mr.buf, 8, self.mr.lkey)], opcode=e.IBV_WR_ATOMIC_FETCH_AND_ADD)
        wr.set_wr_atomic(key, address, value, 0)
        self.qp.post_send(wr)
        status = self.wait()
        return struct.unpack("=Q", self.mr.read(8, 0))[0] if status == OK else status

    # What the library has no call for.
    def rereg(self, mr, flags, start=0, length=0, iova=0, pd=None, rights=0):
        resp = ctypes.create_string_buffer(8)
        body = struct.pack("=QIIQQQII", ctypes.addressof(resp), mr.handle, flags, start, length, iova,
                           pd.handle if pd else 0, rights)
        os.write(self.ctx.cmd_fd, struct.pack("=IHH", REREG_MR, (8 + len(body)) // 4, 2) + body)
        return struct.unpack("=II", resp.raw)

    def ioctl(self, method, attrs):
        body = b"".join(struct.pack("=HHHHQ", *a) for a in attrs)
        data = struct.pack("=HHHHQII", 24 + len(body), OBJECT_MR, method, len(attrs), 0, 14, 0) + body
        buf = bytearray(data)
        fcntl.ioctl(self.ctx.cmd_fd, IOCTL, buf)
        return buf

    def reg_dmabuf(self, fd, offset, length, iova, rights=ALL):
        """Handle and key."""
        lkey, rkey = ctypes.c_uint32(), ctypes.c_uint32()
        out = self.ioctl(REG_DMABUF_MR, [
            (0, 0, 1, 0, 0), (1, 0, 1, 0, self.pd.handle), (2, 8, 1, 0, offset), (3, 8, 1, 0, length),
            (4, 8, 1, 0, iova), (5, 4, 1, 0, fd), (6, 8, 1, 0, rights),
            (7, 4, 1, 0, ctypes.addressof(lkey)), (8, 4, 1, 0, ctypes.addressof(rkey))])
        check("keys", lkey.value, rkey.value)
        return struct.unpack_from("=Q", out, 24 + 8)[0], rkey.value

    def dereg(self, handle):
        self.ioctl(MR_DESTROY, [(0, 0, 1, 0, handle)])


def address_of(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def big():
    """A region whose page table is longer than one allocation of pages can be."""
    loop = Loop()
    size = (1 << 30) + (1 << 28) + PAGE
    memory = mmap.mmap(-1, size, flags=PRIVATE)
    base = address_of(memory)
    mr = MR(loop.pd, size, ALL, base)
    places = [0, 1, (1 << 30) - 100, (1 << 30) + 12345, size - 5000]
    for n, at in enumerate(places):
        data = bytes((n + i) & 0xFF for i in range(5000))
        check(f"write at {at:#x}", loop.put(base + at, mr.rkey, data), OK)
        check(f"memory at {at:#x}", memory[at:at + 5000] == data, True)
        check(f"read at {at:#x}", loop.get(base + at, mr.rkey, 5000) == data, True)
    check("past the end", loop.put(base + size - 4999, mr.rkey, bytes(5000)), DENIED)
    mr.close()
    print(f"{size} bytes")


def rereg():
    """Other memory, rights and domain for a region; what fails changes nothing."""
    loop = Loop()
    memory = mmap.mmap(-1, 16 * PAGE, flags=PRIVATE)
    base = address_of(memory)
    mr = MR(loop.pd, 4 * PAGE, ALL, base)
    keys = (mr.lkey, mr.rkey)
    check("before", loop.put(base + 8, keys[1], b"before"), OK)

    # Memory: another place, length and address of the first byte.
    at, length, iova = base + 5 * PAGE + 16, 6 * PAGE + 3, 0x7000_0000_0000 + 16
    check("keys", loop.rereg(mr, TRANS, at, length, iova), keys)
    data = os.urandom(length)
    check("write", loop.put(iova, keys[1], data), OK)
    check("memory", memory[5 * PAGE + 16:5 * PAGE + 16 + length] == data, True)
    check("read", loop.get(iova, keys[1], length) == data, True)
    check("past the end", loop.put(iova + 1, keys[1], data), DENIED)
    check("old address", loop.put(base + 8, keys[1], b"after"), DENIED)
    check("old memory", memory[8:14], b"before")

    # Rights.
    loop.rereg(mr, RIGHTS, rights=LOCAL | READ)
    check("write without the right", loop.put(iova, keys[1], b"no"), DENIED)
    check("read", loop.get(iova, keys[1], 2), data[:2])
    loop.rereg(mr, RIGHTS, rights=ALL)
    check("write with the right", loop.put(iova, keys[1], b"yes"), OK)

    # Domain.
    other = PD(loop.ctx)
    loop.rereg(mr, DOMAIN, pd=other)
    check("other domain", loop.put(iova, keys[1], b"no"), DENIED)
    loop.rereg(mr, DOMAIN, pd=loop.pd)
    check("own domain", loop.put(iova, keys[1], b"back"), OK)

    # What fails.
    for what, number, args in (
            ("no memory there", errno.EFAULT, (TRANS, 0x1000, PAGE, 0x1000)),
            ("no bytes", errno.EINVAL, (TRANS, base, 0, base)),
            ("another place in the page", errno.EINVAL, (TRANS, base, PAGE, base + 1)),
            ("a range that wraps", errno.EINVAL, (TRANS, 2**64 - PAGE, 2 * PAGE, 0)),
            ("nothing to change", errno.EINVAL, (0,)),
            ("rights that contradict", errno.EINVAL, (RIGHTS, 0, 0, 0, None, WRITE))):
        refused(what, number, loop.rereg, mr, *args)
        check(f"after {what}", loop.get(iova, keys[1], 4), b"back")

    # All at once.
    check("keys", loop.rereg(mr, TRANS | DOMAIN | RIGHTS, base, PAGE, base, loop.pd, LOCAL | WRITE), keys)
    check("write after all", loop.put(base, keys[1], b"all"), OK)
    check("read after all", loop.get(base, keys[1], 3), DENIED)
    check("memory after all", memory[:3], b"all")
    check("old address after all", loop.put(iova, keys[1], b"no"), DENIED)

    # Read-only memory was not pinned for writing.
    plain = MR(loop.pd, PAGE, READ, base + 12 * PAGE)
    try:
        loop.rereg(plain, RIGHTS, rights=ALL)
    except OSError:
        check("still readable", loop.get(base + 12 * PAGE, plain.rkey, 4), bytes(4))
    else:
        check("writable now", loop.put(base + 12 * PAGE, plain.rkey, b"w"), OK)
        check("memory", memory[12 * PAGE:12 * PAGE + 1], b"w")


def heap(size):
    """A dma-buf of the system heap."""
    fd = os.open("/dev/dma_heap/system", os.O_RDWR)
    request = bytearray(struct.pack("=QIIQ", size, 0, os.O_RDWR | os.O_CLOEXEC, 0))
    fcntl.ioctl(fd, 3 << 30 | 24 << 16 | ord("H") << 8, request)
    os.close(fd)
    return struct.unpack_from("=I", request, 8)[0]


def udmabuf(size):
    """A dma-buf of memory of a process."""
    mem = os.memfd_create("udmabuf", os.MFD_ALLOW_SEALING)
    os.ftruncate(mem, size)
    fcntl.fcntl(mem, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    fd = os.open("/dev/udmabuf", os.O_RDWR)
    # What cannot be changed makes it return that instead of the descriptor.
    request = bytearray(struct.pack("=IIQQ", mem, 1, 0, size))
    buf = fcntl.ioctl(fd, 1 << 30 | 24 << 16 | ord("u") << 8 | 0x42, request)
    os.close(fd)
    os.close(mem)
    return buf


def dmabuf():
    """Regions of dma-bufs of two exporters."""
    loop = Loop()
    for name, make in (("heap", heap), ("udmabuf", udmabuf)):
        size = 64 * PAGE
        fd = make(size)
        memory = mmap.mmap(fd, size)
        handle, key = loop.reg_dmabuf(fd, 0, size, 0)
        data = os.urandom(size)
        check(f"{name}: write", loop.put(0, key, data), OK)
        check(f"{name}: memory", memory[:] == data, True)
        memory[5:9] = b"test"
        check(f"{name}: read", loop.get(4, key, 6) == data[4:5] + b"test" + data[9:10], True)
        check(f"{name}: past the end", loop.put(size - 3, key, b"long"), DENIED)
        memory[16:24] = bytes(8)
        check(f"{name}: atomic", loop.add(16, key, 5), 0)
        check(f"{name}: after the atomic", memory[16:24], struct.pack("=Q", 5))
        # As local memory too.
        sge = SGE(0, 1000, key)
        check(f"{name}: local", loop.post(e.IBV_WR_RDMA_WRITE, sge, loop.mr.buf, loop.mr.rkey), OK)
        check(f"{name}: local memory", loop.mr.read(1000, 0) == memory[:1000], True)

        # A part, at another address, without the right to write.
        iova = 0x12345000
        part, pkey = loop.reg_dmabuf(fd, 3 * PAGE, 2 * PAGE, iova, READ)
        memory[3 * PAGE:3 * PAGE + 4] = b"part"
        check(f"{name}: part", loop.get(iova, pkey, 4), b"part")
        check(f"{name}: before the part", loop.get(iova - 1, pkey, 4), DENIED)
        check(f"{name}: after the part", loop.get(iova + 2 * PAGE - 3, pkey, 4), DENIED)
        check(f"{name}: read-only", loop.put(iova, pkey, b"no"), DENIED)
        loop.dereg(part)
        check(f"{name}: deregistered", loop.get(iova, pkey, 4), DENIED)

        # The region keeps the buffer when the process closes it.
        os.close(fd)
        check(f"{name}: closed", loop.put(100, key, b"kept"), OK)
        check(f"{name}: kept", memory[100:104], b"kept")
        memory.close()
        check(f"{name}: unmapped", loop.get(100, key, 4), b"kept")
        loop.dereg(handle)

        fd = make(size)
        for what, number, args in (("too long", errno.EINVAL, (fd, PAGE, size, 0)),
                                   ("wraps", errno.EINVAL, (fd, 2**64 - PAGE, 2 * PAGE, 0)),
                                   ("no bytes", errno.EINVAL, (fd, 0, 0, 0)),
                                   ("closed", errno.EBADF, (9999, 0, PAGE, 0)),
                                   ("no dma-buf", errno.EINVAL, (0, 0, PAGE, 0)),
                                   ("on demand", errno.EINVAL,
                                    (fd, 0, PAGE, 0, LOCAL | e.IBV_ACCESS_ON_DEMAND))):
            refused(f"{name}: {what}", number, loop.reg_dmabuf, *args)
        os.close(fd)
        # One that is left to the end of the process.
        fd = make(size)
        loop.reg_dmabuf(fd, 0, size, 0)


def implicit():
    """One region for all of the address space, also for what is not there yet."""
    loop = Loop()
    check("capability", loop.ctx.query_device_ex().odp_caps.general_caps & 2, 2)
    mr = MR(loop.pd, 0, ALL | e.IBV_ACCESS_ON_DEMAND, implicit=True)
    memory = mmap.mmap(-1, 64 * PAGE, flags=PRIVATE)
    base = address_of(memory)
    data = os.urandom(10 * PAGE)
    check("write", loop.put(base + 100, mr.rkey, data), OK)
    check("memory", memory[100:100 + len(data)] == data, True)
    check("read", loop.get(base + 100, mr.rkey, len(data)) == data, True)
    memory[800:808] = struct.pack("=Q", 7)
    check("atomic", loop.add(base + 800, mr.rkey, 1), 7)
    check("after the atomic", memory[800:808], struct.pack("=Q", 8))
    # As local memory, to send and to receive.
    memory[0:5] = b"hello"
    loop.peer.post_recv(RecvWR(num_sge=1, sg=[SGE(base + 20 * PAGE - 2, 5, mr.lkey)]))
    loop.qp.post_send(SendWR(num_sge=1, sg=[SGE(base, 5, mr.lkey)], opcode=e.IBV_WR_SEND))
    check("send", loop.wait(), OK)
    check("receive", loop.wait(1), OK)
    check("received", memory[20 * PAGE - 2:20 * PAGE + 3], b"hello")

    # What is not mapped, or not to be written, is an error and not a hang.
    status = loop.put(0x1000, mr.rkey, b"x")
    check("nothing there", status in (DENIED, BROKEN), True)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(PAGE), 1, 0x22, -1, ctypes.c_long(0))
    check("read what is read-only", loop.get(at, mr.rkey, 4), bytes(4))
    status = loop.put(at, mr.rkey, b"x")
    check("write what is read-only", status in (DENIED, BROKEN), True)
    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(PAGE))
    status = loop.get(at, mr.rkey, 4)
    check("read what is gone", status in (DENIED, BROKEN), True)

    # Rights are those of the region.
    plain = MR(loop.pd, 0, READ | e.IBV_ACCESS_ON_DEMAND, implicit=True)
    check("read", loop.get(base, plain.rkey, 5), b"hello")
    check("write", loop.put(base, plain.rkey, b"no"), DENIED)
    mr.close()
    check("closed", loop.get(base, plain.rkey, 5), b"hello")


CASES = {case.__name__: case for case in (big, rereg, dmabuf, implicit)}
for name in sys.argv[1:]:
    CASES[name]()
    print(f"{name}: as it should be", flush=True)
os._exit(0)
