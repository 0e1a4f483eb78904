#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""badnl.py DEVICE [--random N]: hostile netlink messages, one line of result each.

The lines are compared between the cores; what must hold on any core (the
device still answers, nothing hangs) is checked here.
"""
import os
import random
import struct
import sys

import nl

dev = sys.argv[1]
index = nl.device_index(dev)
IDX = nl.attr(nl.DEV_INDEX, index)
PORT = nl.attr(nl.PORT_INDEX, 1)
OPS = [op for op in range(nl.NUM_OPS + 2)]
# What would really change something when it happened to be valid.
NOT_RANDOM = {nl.SYS_SET, nl.DELLINK, nl.NEWDEV, nl.DELDEV, nl.SET}


def show(label, op, payload=b"", client=nl.NLDEV, flags=nl.REQUEST | nl.ACK, **kw):
    with nl.Closing(nl.Socket(timeout=3)) as s:
        result, messages = s.call(client, op, payload, flags, **kw)
    print(f"{label} op {op}: {result}" + (f" +{len(messages)}" if messages else ""))


def each(label, payload, ops=OPS, flags=nl.REQUEST | nl.ACK):
    for op in ops:
        show(label, op, payload, flags=flags)


# Nothing, truncated, unknown, oversize.
each("empty", b"")
each("dump-empty", b"", flags=nl.REQUEST | nl.DUMP)
each("index-short", nl.attr(nl.DEV_INDEX, b"\1\0"))
each("index-long", nl.attr(nl.DEV_INDEX, b"\0" * 8))
each("index-empty", nl.attr(nl.DEV_INDEX))
each("index-none-such", nl.attr(nl.DEV_INDEX, 0x7FFFFFFF))
each("index-negative", nl.attr(nl.DEV_INDEX, 0xFFFFFFFF))
each("port-zero", IDX + nl.attr(nl.PORT_INDEX, 0), ops=[o for o in OPS if o != nl.DELLINK])
each("port-two", IDX + nl.attr(nl.PORT_INDEX, 2), ops=[o for o in OPS if o != nl.DELLINK])
each("port-huge", IDX + nl.attr(nl.PORT_INDEX, 0xFFFFFFFF), ops=[o for o in OPS if o != nl.DELLINK])
each("dump-port-huge", IDX + nl.attr(nl.PORT_INDEX, 0xFFFFFFFF), flags=nl.REQUEST | nl.DUMP)
each("dump-index-none-such", nl.attr(nl.DEV_INDEX, 0x7FFFFFFF), flags=nl.REQUEST | nl.DUMP)
each("attr-length-0", IDX + struct.pack("=HH", 0, nl.PORT_INDEX), ops=[o for o in OPS if o != nl.DELLINK])
each("attr-length-past-end", IDX + struct.pack("=HH", 400, nl.PORT_INDEX), ops=[o for o in OPS if o != nl.DELLINK])
each("unknown-attr", IDX + PORT + nl.attr(200, 7), ops=[o for o in OPS if o != nl.DELLINK])
each("unknown-attr-only", nl.attr(300, 7))
each("garbage", b"\xff" * 64)
each("zeros", b"\0" * 64)

# Ids of the resources: none such, too short, wrapping.
for op, key in ((nl.RES_QP, nl.RES_LQPN), (nl.RES_CQ, nl.RES_CQN), (nl.RES_MR, nl.RES_MRN), (nl.RES_PD, nl.RES_PDN),
                (nl.RES_CM_ID, nl.RES_CM_IDN), (nl.RES_CTX, nl.RES_CTXN), (nl.RES_SRQ, nl.RES_SRQN),
                (nl.RES_QP_RAW, nl.RES_LQPN), (nl.RES_CQ_RAW, nl.RES_CQN), (nl.RES_MR_RAW, nl.RES_MRN)):
    for what, value in (("max", 0xFFFFFFFF), ("high", 0x80000000), ("short", b"\1"), ("none", b"")):
        show(f"res-id-{what}", op, IDX + PORT + nl.attr(key, value))
    show("res-no-id", op, IDX + PORT)
    show("res-no-port", op, IDX + nl.attr(key, 1))

# Strings: unterminated, empty, oversize.
for what, text in (("unterminated", b"A" * 64), ("long", b"A" * 63 + b"\0"), ("longer", b"A" * 200 + b"\0"),
                   ("huge", b"A" * 4000), ("empty", b""), ("nul", b"\0"), ("slash", b"a/b\0"), ("taken", dev.encode() + b"\0"),
                   ("inner-nul", b"A\0B\0")):
    if what not in ("slash", "long", "inner-nul"):
        show(f"set-name-{what}", nl.SET, IDX + nl.attr(nl.DEV_NAME, text))
    show(f"newlink-name-{what}", nl.NEWLINK, nl.attr(nl.DEV_NAME, text) + nl.attr(nl.LINK_TYPE, "rxe") + nl.attr(nl.NDEV_NAME, "none-such"))
    show(f"newlink-type-{what}", nl.NEWLINK, nl.attr(nl.DEV_NAME, "q0") + nl.attr(nl.LINK_TYPE, text) + nl.attr(nl.NDEV_NAME, "lo"))
    show(f"newlink-netdev-{what}", nl.NEWLINK, nl.attr(nl.DEV_NAME, "q0") + nl.attr(nl.LINK_TYPE, "rxe") + nl.attr(nl.NDEV_NAME, text))
    show(f"chardev-{what}", nl.CHARDEV, nl.attr(nl.CHARDEV_TYPE, text))
    show(f"chardev-dev-{what}", nl.CHARDEV, IDX + nl.attr(nl.CHARDEV_TYPE, text))
show("newlink-percent", nl.NEWLINK, nl.attr(nl.DEV_NAME, "q%d") + nl.attr(nl.LINK_TYPE, "rxe") + nl.attr(nl.NDEV_NAME, "lo"))
show("newlink-no-netdev", nl.NEWLINK, nl.attr(nl.DEV_NAME, "q0") + nl.attr(nl.LINK_TYPE, "rxe"))
show("set-nothing", nl.SET, IDX)
show("set-netns-bad-fd", nl.SET, IDX + nl.attr(nl.NET_NS_FD, 0xFFFFFFFF))
show("set-netns-stdin", nl.SET, IDX + nl.attr(nl.NET_NS_FD, 0))
show("set-dim-2", nl.SET, IDX + nl.attr(nl.DEV_DIM, b"\2"))
show("set-unknown-attr", nl.SET, IDX + nl.attr(nl.DEV_DIM, b"\1") + nl.attr(200, 1))
show("sys-set-nothing", nl.SYS_SET)
show("sys-set-netns-2", nl.SYS_SET, nl.attr(nl.NETNS_MODE, b"\2"))
show("sys-set-netns-255", nl.SYS_SET, nl.attr(nl.NETNS_MODE, b"\377"))
show("sys-set-qkey-2", nl.SYS_SET, nl.attr(nl.QKEY_MODE, b"\2"))
show("newdev-no-type", nl.NEWDEV, IDX + nl.attr(nl.DEV_NAME, "sub0"))
show("newdev-smi", nl.NEWDEV, IDX + nl.attr(nl.DEV_NAME, "sub0") + nl.attr(nl.DEV_TYPE, b"\1"))
show("newdev-bad-type", nl.NEWDEV, IDX + nl.attr(nl.DEV_NAME, "sub0") + nl.attr(nl.DEV_TYPE, b"\377"))
show("deldev-not-sub", nl.DELDEV, IDX)
show("dellink-none-such", nl.DELLINK, nl.attr(nl.DEV_INDEX, 0x7FFFFFFF))

# Counters: containers with children of the wrong size, indices out of range.
for what, children in (("empty", b""), ("0", nl.attr(nl.HWC_INDEX)), ("1", nl.attr(nl.HWC_INDEX, b"\1")),
                       ("3", nl.attr(nl.HWC_INDEX, b"\1\1\1")), ("5", nl.attr(nl.HWC_INDEX, b"\1\1\1\1\1")),
                       ("max", nl.attr(nl.HWC_INDEX, 0xFFFFFFFF)), ("high", nl.attr(nl.HWC_INDEX, 0x80000000)),
                       ("99", nl.attr(nl.HWC_INDEX, 99)), ("static", nl.attr(nl.HWC_INDEX, 0)),
                       ("wrong-kind", nl.attr(nl.DEV_NAME, "x")), ("length-0", struct.pack("=HH", 0, nl.HWC_INDEX)),
                       ("past-end", struct.pack("=HH", 64, nl.HWC_INDEX))):
    for flag in (0, 0x8000):
        show(f"stat-counters-{what}-{flag:x}", nl.STAT_SET, IDX + PORT + nl.attr(nl.HWCOUNTERS | flag, children))
for what, value in (("max", 0xFFFFFFFF), ("9", 9)):
    show(f"stat-mode-{what}", nl.STAT_SET, IDX + PORT + nl.attr(nl.STAT_RES, 19) + nl.attr(nl.STAT_MODE, value))
    show(f"stat-mask-{what}", nl.STAT_SET, IDX + PORT + nl.attr(nl.STAT_RES, 19) + nl.attr(nl.STAT_MODE, 1) + nl.attr(nl.STAT_AUTO_MASK, value))
    show(f"stat-res-{what}", nl.STAT_SET, IDX + PORT + nl.attr(nl.STAT_RES, value) + nl.attr(nl.STAT_MODE, 2))
    show(f"stat-bind-{what}", nl.STAT_SET, IDX + PORT + nl.attr(nl.STAT_RES, 19) + nl.attr(nl.STAT_MODE, 2) + nl.attr(nl.RES_LQPN, value))
    show(f"stat-unbind-{what}", nl.STAT_DEL, IDX + PORT + nl.attr(nl.STAT_RES, 19) + nl.attr(nl.STAT_COUNTER_ID, value) + nl.attr(nl.RES_LQPN, value))
    show(f"stat-get-{what}", nl.STAT_GET, IDX + PORT + nl.attr(nl.STAT_RES, value))
    show(f"stat-get-id-{what}", nl.STAT_GET, IDX + PORT + nl.attr(nl.STAT_RES, 19) + nl.attr(nl.STAT_COUNTER_ID, value))

# Message header: length past the end, shorter than the header, unknown clients.
for what, length in (("long", 4096), ("short", 12), ("zero", 0), ("exact", 16)):
    show(f"header-{what}", nl.GET, b"\0" * 8, length=length)
for client in (0, 1, 2, 3, 4, 6, 7, 20, 63):
    for op in (0, 1, 2, 3, 8, 31, 1023):
        show(f"client-{client}", op, client=client)
show("no-request-flag", nl.GET, IDX, flags=nl.ACK)

# Without privileges.
pid = os.fork()
if pid == 0:
    nl.drop_privileges()
    each("user", IDX + PORT)
    each("user-dump", IDX + PORT, flags=nl.REQUEST | nl.DUMP)
    for op in (0, 1, 2):
        show("user-ls", op, client=nl.LS)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
sys.stdout.flush()

# Random mutations: no result is compared, the device must answer afterwards.
count = int(sys.argv[3]) if len(sys.argv) > 3 else 0
rng = random.Random(4711)
seeds = [IDX + PORT + nl.attr(nl.RES_LQPN, 17) + nl.attr(nl.STAT_RES, 19) + nl.attr(nl.STAT_MODE, 2),
         IDX + PORT + nl.attr(nl.HWCOUNTERS | 0x8000, nl.attr(nl.HWC_INDEX, 1)),
         IDX + nl.attr(nl.DEV_NAME, "zz") + nl.attr(nl.CHARDEV_TYPE, "uverbs")]
s = nl.Socket(timeout=0)
s.s.setblocking(False)
sent = 0
for n in range(count):
    b = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 6)):
        k = rng.randrange(3)
        if k == 0:
            b[rng.randrange(len(b))] = rng.randrange(256)
        elif k == 1:
            b = b[:rng.randrange(1, len(b) + 1)]
        else:
            b[rng.randrange(len(b)):0] = bytes([rng.randrange(256)]) * rng.randrange(8)
    op = rng.choice([o for o in OPS if o not in NOT_RANDOM])
    try:
        s.send(nl.NLDEV, op, bytes(b), rng.choice((nl.REQUEST, nl.REQUEST | nl.ACK, nl.REQUEST | nl.DUMP)))
        sent += 1
    except OSError:
        pass
    try:
        while True:
            s.s.recv(1 << 18)
    except OSError:
        pass
s.close()
if count:
    print(f"# {sent} of {count} random messages sent", file=sys.stderr)
assert nl.device_index(dev) == index
