#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""interop.py NUMBER DEVICE NIC [quick]: one of the two machines of scripts/interop, or namespaces of
interop.sh. DRIVER in the environment is "c" or "rust".

Machine 1 listens, 2 calls. One leads, the other does what it is told over a TCP connection; then they
change places. The leader posts every operation at every path MTU and critical length, and looks at both
ends: completions, bytes, and that nothing beside them was touched. It prints a line for each.
"""
import json
import os
import random
import socket
import subprocess
import sys
import time
import zlib

from endpoint import GRH, Endpoint, e, gid_index
from pyverbs.mr import MW, MWBindInfo
from pyverbs.wr import SendWR

SIZE = 1 << 20
GUARD = 64
REGION = SIZE + 4096            # one for what is sent and told, one for what comes
MTUS = (256, 512, 1024, 2048, 4096)
OPS = {
    "rc": ("send", "send_imm", "send_inv", "write", "write_imm", "read", "cas", "add", "atomic_write", "flush"),
    "uc": ("send", "send_imm", "write", "write_imm"),
    "ud": ("send", "send_imm"),
}
# What a network may do to packets, in both directions.
FAULTS = {
    "loss": "loss 3%",
    "duplication": "duplicate 10%",
    "reorder": "delay 4ms reorder 60% 30%",
    "corruption": "corrupt 3%",
    "all": "delay 2ms reorder 70% 30% loss 1% duplicate 3% corrupt 1%",
}
ME, DEV, NIC = int(sys.argv[1]), sys.argv[2], sys.argv[3]
QUICK = sys.argv[4:] == ["quick"]
PORT = 7471


def data(seed, length):
    return random.Random(seed).randbytes(length)


class Agent:
    """What the machine that does not lead does: the methods are called by the other one."""

    def __init__(self):
        self.ep = self.mw = None

    def open(self, kind, mtu, family):
        self.close()
        address = {4: f"ffff:0a09:010{ME}", 6: f"fd00:0091:0000:0000:0000:0000:0000:000{ME}"}[family]
        rights = {} if kind == "ud" else {"access": e.IBV_ACCESS_MW_BIND | e.IBV_ACCESS_FLUSH_GLOBAL | e.IBV_ACCESS_LOCAL_WRITE
                                          | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC}
        if kind == "uc":
            rights["rights"] = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
        self.ep = Endpoint(DEV, gid_index(DEV, address), kind, size=2 * REGION, mtu=mtu, timeout=15, **rights)
        return self.ep.info()

    def connect(self, peer):
        self.ep.connect(peer)

    def driver(self):
        return os.environ["DRIVER"]

    def close(self):
        if self.mw:
            self.mw.close()
        if self.ep:
            self.ep.close()
        self.ep = self.mw = None

    def window(self):
        """The key of a window that a SEND can invalidate."""
        if self.mw:
            self.mw.close()
        self.mw = MW(self.ep.pd, e.IBV_MW_TYPE_2)
        bind = SendWR(opcode=e.IBV_WR_BIND_MW)
        bind.set_bind_wr(self.mw, MWBindInfo(self.ep.mr, self.ep.mr.buf, 4096, e.IBV_ACCESS_REMOTE_WRITE))
        self.ep.qp.post_send(bind)
        status = self.ep.statuses()
        return bind.rkey if status == ["SUCCESS"] else None

    def prepare(self, receive, length):
        """Blanks the place of what comes, and posts a receive for it if one is needed."""
        self.ep.mr.write(b"\xee" * (length + GUARD), length + GUARD, REGION)
        if receive is not None:
            self.ep.recv(receive, REGION)

    def fill(self, seed, length):
        if length:
            self.ep.mr.write(data(seed, length), length)

    def arrived(self, length, seconds, complete, head=0):
        """(completion, checksum of `length` bytes behind the headers, whether those behind are untouched)"""
        wcs = self.ep.wait(1, seconds) if complete else []
        wc = [[w.status, w.byte_len, int(w.imm_data), w.wc_flags, w.opcode] for w in wcs]
        mr = self.ep.mr
        crc = zlib.crc32(mr.read(length, REGION + head)) if length else 0
        return wc, crc, mr.read(GUARD, REGION + head + length) == b"\xee" * GUARD

    def word(self, value=None):
        if value is not None:
            self.ep.mr.write(value.to_bytes(8, "little"), 8, REGION)
        return int.from_bytes(self.ep.mr.read(8, REGION), "little")

    def network(self, fault):
        subprocess.run(["tc", "qdisc", "del", "dev", NIC, "root"], stderr=subprocess.DEVNULL, check=False)
        if fault:
            subprocess.run(["tc", "qdisc", "add", "dev", NIC, "root", "netem", *fault.split()], check=True)


class Wire:
    """Lines of JSON over a socket."""

    def __init__(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = sock.makefile("rw")

    def put(self, what):
        self.file.write(json.dumps(what) + "\n")
        self.file.flush()

    def get(self):
        line = self.file.readline()
        if not line:
            raise SystemExit("the other machine is gone")
        return json.loads(line)

    def serve(self, agent):
        while True:
            name, args = self.get()
            if name == "done":
                return
            try:
                self.put([True, getattr(agent, name)(*args)])
            except Exception as err:    # told to the other side, which counts it
                self.put([False, repr(err)])

    def call(self, name, *args):
        self.put([name, args])
        ok, value = self.get()
        if not ok:
            raise RuntimeError(f"the other machine: {name}: {value}")
        return value


class Wrong(Exception):
    """An operation did not do what it must."""


def check(what, got, expected):
    if got != expected:
        raise Wrong(f"{what}: {got}, not {expected}")


class Leader:
    def __init__(self, wire):
        self.wire, self.agent, self.ep, self.seed = wire, Agent(), None, ME * 1000000
        self.driver, self.peer_driver = self.agent.driver(), wire.call("driver")

    def open(self, kind, mtu, family=4):
        self.kind, self.mtu = kind, mtu
        theirs = self.wire.call("open", kind, mtu, family)
        ours = self.agent.open(kind, mtu, family)
        self.ep = self.agent.ep
        self.posted = False     # a receive that nothing has come for
        self.before = []        # (operation, length, seed) of what was sent last
        self.copies = 0         # datagrams that came again, late enough to meet the next receive
        self.wire.call("connect", ours)
        self.ep.connect(theirs)

    def lengths(self):
        some = [0, 1, self.mtu - 1, self.mtu, self.mtu + 1]
        if self.kind == "ud":
            return [n for n in some if n <= self.mtu]
        return some if QUICK else [*some, SIZE]

    def sent(self):
        check("completion here", self.ep.statuses(1, 60), ["SUCCESS"])

    def late_copy(self, wc, head):
        """Whether what came is a whole datagram that was sent before. The network may repeat one and hold the
        copy back, and no receiver of datagrams can know it."""
        for op, length, seed in self.before:
            if wc[1] == length + head and bool(wc[3] & e.IBV_WC_WITH_IMM) == op.endswith("imm"):
                _, crc, untouched = self.wire.call("arrived", length, 0, False, head)
                if untouched and crc == zlib.crc32(data(seed, length)):
                    return True
        return False

    def step(self, op, length, lost=False):
        """One operation. `lost`: whether an unreliable one may be; returns whether it came."""
        ep, wire = self.ep, self.wire
        self.seed += 1
        seed, imm = self.seed, self.seed & 0xFFFFFFFF
        if op in ("cas", "add"):
            old = random.Random(seed).getrandbits(64)
            wire.call("word", old)
            ep.mr.write(b"\xee" * 16, 16)
            value = (old, seed) if op == "cas" else seed
            ep.post(op, 8, to=REGION, value=value)
            self.sent()
            new = seed if op == "cas" else (old + seed) % (1 << 64)
            check("the value before", int.from_bytes(ep.mr.read(8, 0), "little"), old)
            check("the value behind", wire.call("word"), new)
            if op == "cas":     # and one that does not hit
                ep.post(op, 8, to=REGION, value=(old, 1))
                self.sent()
                check("the value that is not the expected one", wire.call("word"), new)
            return True
        if op == "atomic_write":
            wire.call("prepare", None, 8)
            ep.post(op, to=REGION, value=data(seed, 8))
            self.sent()
            check("8 bytes", wire.call("arrived", 8, 0, False), [[], zlib.crc32(data(seed, 8)), True])
            return True
        if op == "flush":
            ep.post(op, length, to=REGION)
            self.sent()
            return True
        if op == "read":
            wire.call("fill", seed, length)
            ep.mr.write(b"\xee" * (length + GUARD), length + GUARD, REGION)
            ep.post(op, length, at=REGION)
            self.sent()
            check("bytes", length == 0 or ep.mr.read(length, REGION) == data(seed, length), True)
            check("what is behind", ep.mr.read(GUARD, REGION + length), b"\xee" * GUARD)
            return True
        takes = op.startswith("send") or op == "write_imm"
        head = GRH if self.kind == "ud" else 0
        receive = {True: length + head, False: 0}[op.startswith("send")] if takes else None
        if takes and lost:      # what one that was lost leaves must do for any other
            receive = {"uc": SIZE, "ud": self.mtu}[self.kind] + head
        if op == "send_inv":
            imm = wire.call("window")
            check("a window is bound", imm is not None, True)
        wire.call("prepare", None if takes and self.posted else receive, length + head)
        if length:
            ep.mr.write(data(seed, length), length)
        ep.post(op, length, to=REGION, imm=imm)
        self.sent()
        if self.kind == "uc" and not takes:
            time.sleep(0.05)    # nothing tells when it has come
        wc, crc, untouched = wire.call("arrived", length, 2 if lost else 30, takes, head)
        right = crc == zlib.crc32(data(seed, length))
        self.before = [*self.before[-7:], (op, length, seed)]
        if head and lost and wc and not (right and untouched) and self.late_copy(wc[0], head):
            # It has taken the receive, and this one found none.
            self.posted = False
            self.copies += 1
            return False
        check("what is behind", untouched, True)
        if lost and takes and not wc:
            self.posted = True
            return False
        if takes:
            self.posted = False
            check("completion there", [w[0] for w in wc], [e.IBV_WC_SUCCESS])
            check("its length", wc[0][1], length + head)
            # The C driver says "invalidated" with the kernel's number alone, which is that of libibverbs' IP_CSUM_OK.
            flags = wc[0][3] & (e.IBV_WC_WITH_IMM | e.IBV_WC_WITH_INV | e.IBV_WC_IP_CSUM_OK)
            if flags & e.IBV_WC_IP_CSUM_OK:
                flags = flags & ~e.IBV_WC_IP_CSUM_OK | e.IBV_WC_WITH_INV
            check("its flags", flags, {"send_inv": e.IBV_WC_WITH_INV}.get(op, e.IBV_WC_WITH_IMM if op.endswith("imm") else 0))
            if flags:
                # Immediate data are in network order.
                seen = wc[0][2] if op == "send_inv" else socket.ntohl(wc[0][2])
                check("its immediate data or key", seen, imm)
        if lost and not takes and not right:
            return False
        check("bytes", right, True)
        return True

    def result(self, name, work):
        try:
            detail = work()
            print(f"PASS interop:{name}-from-{ME} {detail or ''}", flush=True)
        except Exception as err:        # one result of many
            print(f"FAIL interop:{name}-from-{ME} {err or repr(err)}", flush=True)

    def clean(self, kind, mtu, family=4):
        """Every operation and length. On the cable nothing is lost, but a queue of the receiver may be full."""
        self.open(kind, mtu, family)
        count = lost = 0
        for op in OPS[kind]:
            for length in [8] if op in ("cas", "add", "atomic_write") else self.lengths():
                try:
                    for _ in range(5):
                        if self.step(op, length, kind != "rc"):
                            break
                        lost += 1
                    else:
                        raise Wrong("never arrives")
                except Wrong as err:
                    raise Wrong(f"{op} of {length}: {err}") from None
                count += 1
        return f"{count} messages" + (f", {lost} lost" if lost else "")

    def repeatable(self, op, length):
        """Whether a request survives being sent again. The C driver, as a requester, forgets the address of a FLUSH
        and an ATOMIC WRITE, and is refused; as a responder it does not know a FLUSH and a READ of no bytes again,
        and is silent."""
        return not (op == "flush" and "c" in (self.driver, self.peer_driver)
                    or op == "atomic_write" and self.driver == "c"
                    or op == "read" and length == 0 and self.peer_driver == "c")

    def faulty(self, kind, mtu, fault):
        """The same under faults of the network."""
        self.open(kind, mtu)
        count = lost = 0
        try:
            self.wire.call("network", FAULTS[fault])
            self.agent.network(FAULTS[fault])
            lengths = (1, mtu) if kind == "ud" else (0, 1, mtu, mtu + 1, 20 * mtu - 1)
            for _ in range(20 if kind == "ud" else 1):
                for op in OPS[kind]:
                    for length in [8] if op in ("cas", "add", "atomic_write") else lengths:
                        if not self.repeatable(op, length):
                            continue
                        try:
                            lost += not self.step(op, length, kind != "rc")
                        except Wrong as err:
                            raise Wrong(f"{op} of {length} after {count}: {err}") from None
                        count += 1
        finally:
            self.agent.network(None)
            self.wire.call("network", None)
        check("most of them came", lost * 4 < count, True)
        return f"{count} messages" + (f", {lost} lost" if lost else "") + (f", {self.copies} of them to a copy" if self.copies else "")

    def lead(self):
        for kind in OPS:
            for mtu in MTUS:
                self.result(f"{kind}-mtu{mtu}", lambda: self.clean(kind, mtu))
            self.result(f"{kind}-v6", lambda: self.clean(kind, 1024, 6))
        for fault in FAULTS:
            for mtu in (1024,) if QUICK else (256, 1024, 4096):
                self.result(f"rc-mtu{mtu}-{fault}", lambda: self.faulty("rc", mtu, fault))
            self.result(f"ud-mtu1024-{fault}", lambda: self.faulty("ud", 1024, fault))
        self.wire.call("close")
        self.agent.close()
        self.wire.put(["done", []])


def main():
    if ME == 1:
        with socket.create_server(("", PORT)) as server:
            server.settimeout(1200)
            sock, _ = server.accept()
            sock.settimeout(None)
    else:
        end = time.monotonic() + 1200
        while True:
            try:
                sock = socket.create_connection(("10.9.1.1", PORT), timeout=5)
                sock.settimeout(None)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(1)
    wire = Wire(sock)
    if ME == 1:
        Leader(wire).lead()
        wire.serve(Agent())
    else:
        wire.serve(Agent())
        Leader(wire).lead()


main()
