#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""resolver.py CASE: the resolver of user space, as the subnet administration asks it.

Answers, or does not, what the module sa_probe has the core ask, and prints what
its asker was told. Run by resolver.sh.
"""
import os
import socket
import struct
import sys
import threading

import nl

GROUP, OP_RESOLVE, OP_TIMEOUT, ERR = 3, 0, 1, 0x100
PATH_RECORD, TIMEOUT = 1, 2
PRIMARY, OUTBOUND = 2, 8
PARAM = "/sys/module/sa_probe/parameters/"


class Resolver:
    def __init__(self):
        self.s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, nl.NETLINK_RDMA)
        self.s.bind((0, 0))
        self.s.setsockopt(270, 1, GROUP)        # NETLINK_ADD_MEMBERSHIP
        self.s.settimeout(60)

    def question(self):
        """(sequence number, flags, the rest) of the next question."""
        while True:
            m = self.s.recv(65536)
            length, kind, flags, seq, _ = struct.unpack_from("=IHHII", m)
            if kind == nl.LS << 10 | OP_RESOLVE:
                return seq, flags, m[16:length]

    def send(self, op, seq, payload=b"", flags=0):
        m = struct.pack("=IHHII", 16 + len(payload), nl.LS << 10 | op, flags, seq, 0) + payload
        self.s.sendto(m, (0, 0))

    def verdict(self):
        """The errno that comes back, 0 if nothing does."""
        self.s.settimeout(0.3)
        try:
            m = self.s.recv(65536)
        except socket.timeout:
            return 0
        finally:
            self.s.settimeout(60)
        return -struct.unpack_from("=i", m, 16)[0] if struct.unpack_from("=H", m, 4)[0] == nl.NLM_ERROR else 0


def path(flags=PRIMARY | OUTBOUND, dlid=0x1234, cut=0):
    record = bytearray(64)
    struct.pack_into(">H", record, 40, dlid)
    data = struct.pack("=II", flags, 0) + bytes(record)
    return nl.attr(PATH_RECORD, data[:len(data) - cut])


class Asked:
    """A query that the kernel is working on."""

    def __init__(self, reversible=0, cancel=0, destroy=0):
        self.t = threading.Thread(target=self.run, args=(f"{reversible} {cancel} {destroy}",))
        self.t.start()

    @staticmethod
    def run(text):
        with open(PARAM + "resolve", "w") as f:
            f.write(text)

    def told(self):
        self.t.join(120)
        with open(PARAM + "result") as f:
            words = f.read().split()
        return dict(zip(words[::2], words[1::2]))


def show(told, *keys):
    print(" ".join(f"{k} {told[k]}" for k in keys or ("status", "paths", "dlid", "flags", "administered")))


def ended(q, least, most):
    """Shows what a query was told, which it was after more and less milliseconds than these."""
    told = q.told()
    show(told)
    assert least < int(told["ms"]) < most, told


def answered(payload, flags=0, keys=(), **kw):
    q = Asked(**kw)
    seq, _, _ = r.question()
    r.send(OP_RESOLVE, seq, payload, flags)
    show(q.told(), *keys)


def question():
    for reversible in 0, 1:
        q = Asked(reversible=reversible)
        seq, flags, rest = r.question()
        print(f"flags {flags:#x}")
        # The name of the device and its port first.
        assert rest[:64].rstrip(b"\0").startswith(b"fake"), rest[:64]
        print(rest[64:].hex())
        r.send(OP_RESOLVE, seq, path(PRIMARY | OUTBOUND))
        show(q.told())


def answers():
    answered(path())
    answered(path(PRIMARY), reversible=1)
    answered(path(PRIMARY) + path(PRIMARY | OUTBOUND, 0x77))
    answered(path() * 2)
    answered(path() * 5)


def nothing_usable():
    # The C core tells the request as well.
    for payload in b"", path(PRIMARY), nl.attr(3, b"\0" * 8):
        answered(payload, keys=("status", "administered"))


def failures():
    answered(path(), flags=ERR)
    answered(nl.attr(PATH_RECORD, b"\0" * 200))
    answered(path() + struct.pack("=HH", 8, TIMEOUT) + b"\0\0\0\0" + nl.attr(7, b"\0"))


def short_path():
    for cut in 1, 40, 64, 72:
        answered(path(cut=cut), keys=("status", "dlid", "administered"))


def strangers():
    q = Asked()
    seq, _, _ = r.question()
    r.send(OP_RESOLVE, seq + 1, path())
    r.send(OP_RESOLVE, seq - 1 & 0xFFFFFFFF, path())
    print("other numbers", r.verdict())
    r.send(OP_RESOLVE, seq, path(), flags=nl.REQUEST)
    print("a request", nl.name(r.verdict()))
    r.send(OP_RESOLVE, seq, path(dlid=0x99))
    r.send(OP_RESOLVE, seq, path(dlid=0x98))
    show(q.told())


def timeouts():
    q = Asked()
    r.question()
    ended(q, 1900, 50000)
    # Too short: a tenth of a second is the least.
    r.send(OP_TIMEOUT, 1, nl.attr(TIMEOUT, 1), flags=nl.REQUEST)
    q = Asked()
    r.question()
    ended(q, 90, 1900)
    for bad in nl.attr(TIMEOUT, b"\1"), b"", b"\xff" * 7, nl.attr(TIMEOUT, 5000)[:6]:
        r.send(OP_TIMEOUT, 1, bad, flags=nl.REQUEST)
    r.send(OP_TIMEOUT, 1, nl.attr(TIMEOUT, 5000))
    print("no request", nl.name(r.verdict()))
    q = Asked()
    r.question()
    assert int(q.told()["ms"]) < 1900
    # Also for what was asked already.
    r.send(OP_TIMEOUT, 1, nl.attr(TIMEOUT, 100000), flags=nl.REQUEST)
    q = Asked()
    r.question()
    r.send(OP_TIMEOUT, 1, nl.attr(TIMEOUT, 200), flags=nl.REQUEST)
    ended(q, -1, 50000)


def cancelled():
    q = Asked(cancel=200)
    seq, _, _ = r.question()
    ended(q, -1, 50000)
    # Too late.
    r.send(OP_RESOLVE, seq, path())
    answered(path())


def device_gone():
    q = Asked(destroy=200)
    seq, _, _ = r.question()
    ended(q, -1, 50000)
    r.send(OP_RESOLVE, seq, path())


def nobody():
    r.s.close()
    show(Asked().told())


os.chdir("/")
r = Resolver()
# However slow this machine is: the resolver is to answer in time.
r.send(OP_TIMEOUT, 1, nl.attr(TIMEOUT, 2000 if sys.argv[1] == "timeouts" else 100000), flags=nl.REQUEST)
globals()[sys.argv[1]]()
