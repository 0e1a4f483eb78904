#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Raw NETLINK_RDMA client: every byte that nldev sends, as text to be compared.

  nldev_raw.py dump        asks for everything there is and prints every reply
  nldev_raw.py hostile     sends malformed requests and prints every verdict
  nldev_raw.py monitor S   prints the notifications of S seconds
  nldev_raw.py mutate N    sends N randomly damaged requests (fixed seed), prints verdicts

Values that differ from boot to boot (keys, process ids, counters) are masked,
their lengths and padding are not. --raw prints them as well. --nobody sends
without rights.
"""
import argparse
import os
import random
import select
import socket
import struct
import sys
import time

NETLINK_RDMA = 20
NLDEV, LS, IWCM = 5, 4, 2
REQUEST, ACK, DUMP, MULTI = 1, 4, 0x300, 2
SOL_NETLINK, EXT_ACK, CAP_ACK = 270, 11, 10
XRC = 1 << 20

CMDS = dict(GET=1, SET=2, NEWLINK=3, DELLINK=4, PORT_GET=5, SYS_GET=6, SYS_SET=7, RES_GET=9,
            RES_QP_GET=10, RES_CM_ID_GET=11, RES_CQ_GET=12, RES_MR_GET=13, RES_PD_GET=14,
            GET_CHARDEV=15, STAT_SET=16, STAT_GET=17, STAT_DEL=18, RES_QP_GET_RAW=19,
            RES_CQ_GET_RAW=20, RES_MR_GET_RAW=21, RES_CTX_GET=22, RES_SRQ_GET=23,
            STAT_GET_STATUS=24, RES_SRQ_GET_RAW=25, NEWDEV=26, DELDEV=27, MONITOR=28,
            FRMR_POOLS_GET=29, FRMR_POOLS_SET=30)
NAMES = """PAD DEV_INDEX DEV_NAME PORT_INDEX CAP_FLAGS FW_VERSION NODE_GUID SYS_IMAGE_GUID
SUBNET_PREFIX LID SM_LID LMC PORT_STATE PORT_PHYS_STATE DEV_NODE_TYPE RES_SUMMARY
RES_SUMMARY_ENTRY RES_SUMMARY_ENTRY_NAME RES_SUMMARY_ENTRY_CURR RES_QP RES_QP_ENTRY RES_LQPN
RES_RQPN RES_RQ_PSN RES_SQ_PSN RES_PATH_MIG_STATE RES_TYPE RES_STATE RES_PID RES_KERN_NAME
RES_CM_ID RES_CM_ID_ENTRY RES_PS RES_SRC_ADDR RES_DST_ADDR RES_CQ RES_CQ_ENTRY RES_CQE
RES_USECNT RES_POLL_CTX RES_MR RES_MR_ENTRY RES_RKEY RES_LKEY RES_IOVA RES_MRLEN RES_PD
RES_PD_ENTRY RES_LOCAL_DMA_LKEY RES_UNSAFE_GLOBAL_RKEY NDEV_INDEX NDEV_NAME DRIVER DRIVER_ENTRY
DRIVER_STRING DRIVER_PRINT_TYPE DRIVER_S32 DRIVER_U32 DRIVER_S64 DRIVER_U64 RES_PDN RES_CQN
RES_MRN RES_CM_IDN RES_CTXN LINK_TYPE NETNS_MODE DEV_PROTOCOL NET_NS_FD CHARDEV_TYPE
CHARDEV_NAME CHARDEV_ABI CHARDEV UVERBS_DRIVER_ID STAT_MODE STAT_RES STAT_AUTO_MODE_MASK
STAT_COUNTER STAT_COUNTER_ENTRY STAT_COUNTER_ID STAT_HWCOUNTERS STAT_HWCOUNTER_ENTRY
STAT_HWCOUNTER_ENTRY_NAME STAT_HWCOUNTER_ENTRY_VALUE DEV_DIM RES_RAW RES_CTX RES_CTX_ENTRY
RES_SRQ RES_SRQ_ENTRY RES_SRQN MIN_RANGE MAX_RANGE COPY_ON_FORK STAT_HWCOUNTER_INDEX
STAT_HWCOUNTER_DYNAMIC PRIVILEGED_QKEY_MODE DRIVER_DETAILS RES_SUBTYPE DEV_TYPE PARENT_NAME
NAME_ASSIGN_TYPE EVENT_TYPE MONITOR_MODE STAT_OPCOUNTER_ENABLED FRMR_POOLS FRMR_POOL_ENTRY
FRMR_POOL_KEY FRMR_POOL_KEY_ATS FRMR_POOL_KEY_ACCESS_FLAGS FRMR_POOL_KEY_VENDOR_KEY
FRMR_POOL_KEY_NUM_DMA_BLOCKS FRMR_POOL_QUEUE_HANDLES FRMR_POOL_MAX_IN_USE FRMR_POOL_IN_USE
FRMR_POOLS_AGING_PERIOD FRMR_POOL_PINNED_HANDLES FRMR_POOL_KEY_KERNEL_VENDOR_KEY
RES_SUMMARY_ENTRY_MAX""".split()
A = {n: i for i, n in enumerate(NAMES)}
NESTED = {A[n] for n in NAMES if n in (
    "RES_SUMMARY RES_SUMMARY_ENTRY RES_QP RES_QP_ENTRY RES_CM_ID RES_CM_ID_ENTRY RES_CQ "
    "RES_CQ_ENTRY RES_MR RES_MR_ENTRY RES_PD RES_PD_ENTRY DRIVER DRIVER_ENTRY STAT_COUNTER "
    "STAT_COUNTER_ENTRY STAT_HWCOUNTERS STAT_HWCOUNTER_ENTRY RES_CTX RES_CTX_ENTRY RES_SRQ "
    "RES_SRQ_ENTRY FRMR_POOLS FRMR_POOL_ENTRY FRMR_POOL_KEY").split()}
VOLATILE = {A[n] for n in ("RES_PID RES_LKEY RES_RKEY RES_LOCAL_DMA_LKEY RES_UNSAFE_GLOBAL_RKEY "
                           "RES_SQ_PSN RES_RQ_PSN STAT_HWCOUNTER_ENTRY_VALUE RES_IOVA "
                           "FRMR_POOL_QUEUE_HANDLES").split()}


def pad(b):
    return b + b"\0" * (-len(b) % 4)


def attr(kind, payload, flags=0):
    if isinstance(kind, str):
        kind = A[kind]
    return pad(struct.pack("=HH", 4 + len(payload), kind | flags) + payload)


def u8(n, v):
    return attr(n, struct.pack("=B", v))


def u32(n, v):
    return attr(n, struct.pack("=I", v & 0xffffffff))


def u64(n, v):
    return attr(n, struct.pack("=Q", v))


def text(n, s):
    return attr(n, s.encode() + b"\0")


def nest(n, b):
    return attr(n, b, 0x8000)


class Link:
    def __init__(self, groups=0, portid=0):
        self.s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        for opt in EXT_ACK, CAP_ACK:
            self.s.setsockopt(SOL_NETLINK, opt, 1)
        self.s.bind((portid, groups))
        self.seq = 0

    def send(self, data):
        self.s.send(data)

    def request(self, op, attrs=b"", flags=REQUEST | ACK, client=NLDEV):
        self.seq += 1
        self.send(struct.pack("=IHHII", 16 + len(attrs), client << 10 | op, flags, self.seq, 0) + attrs)

    def datagrams(self, patience=5.0):
        """Until an acknowledgement, the end of a dump or silence."""
        while True:
            ready, _, _ = select.select([self.s], [], [], patience)
            if not ready:
                return
            try:
                d = self.s.recv(1 << 17)
            except OSError as e:
                yield e
                return
            yield d
            if any(t in (2, 3) for _, t, _, _, _, _ in messages(d)):
                return


def messages(d):
    at = 0
    while at + 16 <= len(d):
        n, t, f, s, p = struct.unpack_from("=IHHII", d, at)
        if n < 16:
            return
        yield n, t, f, s, p, d[at + 16:at + n]
        at += n + (-n % 4)


def attrs_of(b):
    at = 0
    while at + 4 <= len(b):
        n, t = struct.unpack_from("=HH", b, at)
        if n < 4:
            return
        yield t, b[at + 4:at + n], b[at + n:at + n + (-n % 4)]
        at += n + (-n % 4)


def show_attrs(b, depth, raw, out):
    at = 0
    for t, payload, padding in attrs_of(b):
        kind, flags = t & 0x3fff, t & 0xc000
        name = NAMES[kind] if kind < len(NAMES) else str(kind)
        head = "  " * depth + f"{name} len={len(payload)}" + (" nested" if flags & 0x8000 else "") + \
            (f" pad={padding.hex()}" if padding.strip(b"\0") else "")
        if kind in NESTED:
            out.append(head)
            show_attrs(payload, depth + 1, raw, out)
        elif kind in VOLATILE and not raw:
            out.append(head + " *")
        elif name == "CAP_FLAGS" and len(payload) == 8 and not raw:
            # XRC, which of the two rdma_rxe only ours has.
            out.append(f"{head} {int.from_bytes(payload, 'little') & ~XRC:#x}")
        else:
            out.append(head + " " + payload.hex())
        at += 4 + len(payload) + len(padding)
    if at != len(b):
        out.append("  " * depth + "rest " + b[at:].hex())


def show(d, raw, out):
    if isinstance(d, OSError):
        out.append(f"recv error {d.errno}")
        return
    out.append(f"datagram {len(d)}")
    for n, t, f, s, p, body in messages(d):
        # Without padding, the errors' offsets and policies are compared too.
        out.append(f" message len={n} type={t:#x} flags={f:#x} seq={s} pid={p}")
        if t == 2:
            err, = struct.unpack_from("=i", body)
            out.append(f"  error {err} " + body[4:20].hex())
            for k, payload, _ in attrs_of(body[20:]):
                out.append(f"   extack {k & 0x3fff} {payload.hex()}")
        elif t == 3:
            out.append("  done " + body.hex())
        else:
            show_attrs(body, 2, raw, out)


def collect(link, raw, title, *args, **kw):
    out = [f"### {title}"]
    link.request(*args, **kw)
    got = list(link.datagrams())
    for d in got:
        show(d, raw, out)
    print("\n".join(out))
    return got


def find(got, name, inside=None):
    """All values of a 32-bit attribute in the replies."""
    values = []

    def walk(b):
        for t, payload, _ in attrs_of(b):
            t &= 0x3fff
            if t == A[name] and len(payload) == 4:
                values.append(struct.unpack("=I", payload)[0])
            elif t in NESTED:
                walk(payload)
    for d in got:
        if not isinstance(d, OSError):
            for _, t, _, _, _, body in messages(d):
                if t > 3:
                    walk(body)
    return values


def dump(raw):
    link = Link(portid=4242)

    def ask(title, op, attrs=b"", flags=REQUEST | ACK):
        return collect(link, raw, title, CMDS[op], attrs, flags)

    got = ask("GET dump", "GET", flags=REQUEST | DUMP)
    devices = find(got, "DEV_INDEX")
    ask("GET dump, unknown attribute", "GET", u32(200, 1), REQUEST | DUMP)
    ask("RES_GET dump", "RES_GET", flags=REQUEST | DUMP)
    ask("SYS_GET", "SYS_GET")
    ask("SYS_GET, unknown attribute", "SYS_GET", u32(200, 1))
    ask("no such device", "GET", u32("DEV_INDEX", 9999))
    ask("GET without device", "GET")
    for client in "uverbs", "umad", "issm", "rdma_cm", "nonesuch", "":
        ask(f"GET_CHARDEV {client}", "GET_CHARDEV", text("CHARDEV_TYPE", client))
        ask(f"GET_CHARDEV {client}, port without device", "GET_CHARDEV",
            text("CHARDEV_TYPE", client) + u32("PORT_INDEX", 1))
    ids = dict(QP="RES_LQPN", CM_ID="RES_CM_IDN", CQ="RES_CQN", MR="RES_MRN", PD="RES_PDN",
               CTX="RES_CTXN", SRQ="RES_SRQN")
    for index in devices:
        dev = u32("DEV_INDEX", index)
        port = u32("PORT_INDEX", 1)
        ask(f"GET {index}", "GET", dev)
        ask(f"GET {index}, unknown attribute", "GET", dev + u32(200, 7))
        ask(f"PORT_GET {index}", "PORT_GET", dev + port)
        for p in 0, 2, 0xffffffff:
            ask(f"PORT_GET {index}, port {p}", "PORT_GET", dev + u32("PORT_INDEX", p))
        ask(f"PORT_GET {index}, no port", "PORT_GET", dev)
        ask(f"PORT_GET {index} dump", "PORT_GET", dev, REQUEST | DUMP)
        ask(f"PORT_GET dump, no device", "PORT_GET", b"", REQUEST | DUMP)
        ask(f"RES_GET {index}", "RES_GET", dev)
        ask(f"RES_GET {index}, details", "RES_GET", dev + u8("DRIVER_DETAILS", 1))
        for client in "uverbs", "umad", "issm", "rdma_cm", "nonesuch":
            who = text("CHARDEV_TYPE", client)
            ask(f"GET_CHARDEV {index} {client}", "GET_CHARDEV", dev + who)
            ask(f"GET_CHARDEV {index} {client}, port", "GET_CHARDEV", dev + who + port)
            ask(f"GET_CHARDEV {index} {client}, port 9", "GET_CHARDEV", dev + who + u32("PORT_INDEX", 9))
        for kind, id_attr in ids.items():
            for suffix in ["", "_RAW"] if kind in ("QP", "CQ", "MR", "SRQ") else [""]:
                op = f"RES_{kind}_GET{suffix}"
                got = ask(f"{op} {index} dump", op, dev, REQUEST | DUMP)
                ask(f"{op} {index} dump, port 1", op, dev + port, REQUEST | DUMP)
                ask(f"{op} {index} dump, port 7", op, dev + u32("PORT_INDEX", 7), REQUEST | DUMP)
                ask(f"{op} {index} dump, details", op, dev + u8("DRIVER_DETAILS", 1), REQUEST | DUMP)
                ask(f"{op} dump, no device", op, b"", REQUEST | DUMP)
                ask(f"{op} {index}, no id", op, dev)
                known = sorted(set(find(got, id_attr)))
                for n in (known[:12] or list(range(4))) + [123456]:
                    ask(f"{op} {index} id {n}", op, dev + u32(id_attr, n))
                    ask(f"{op} {index} id {n}, port", op, dev + port + u32(id_attr, n))
                    ask(f"{op} {index} id {n}, port 3", op, dev + u32("PORT_INDEX", 3) + u32(id_attr, n))
        ask(f"STAT_GET {index}", "STAT_GET", dev + port)
        ask(f"STAT_GET {index}, no port", "STAT_GET", dev)
        ask(f"STAT_GET {index}, port 5", "STAT_GET", dev + u32("PORT_INDEX", 5))
        ask(f"STAT_GET_STATUS {index}", "STAT_GET_STATUS", dev + port)
        ask(f"STAT_GET_STATUS {index}, port 5", "STAT_GET_STATUS", dev + u32("PORT_INDEX", 5))
        for kind in "RES_QP", "RES_MR", "RES_CQ":
            res = u32("STAT_RES", A[kind])
            ask(f"STAT_GET {index} {kind}", "STAT_GET", dev + port + res)
            ask(f"STAT_GET {index} {kind} mode", "STAT_GET", dev + port + res + u32("STAT_MODE", 0))
            ask(f"STAT_GET {index} {kind} mode, port 9", "STAT_GET",
                dev + u32("PORT_INDEX", 9) + res + u32("STAT_MODE", 0))
            ask(f"STAT_GET {index} {kind} counter", "STAT_GET",
                dev + port + res + u32("STAT_COUNTER_ID", 1))
            ask(f"STAT_GET {index} {kind} MR 1", "STAT_GET", dev + res + u32("RES_MRN", 1))
            ask(f"STAT_GET {index} {kind} dump", "STAT_GET", dev + res, REQUEST | DUMP)
            ask(f"STAT_GET {index} {kind} dump, port", "STAT_GET", dev + res + port, REQUEST | DUMP)
        ask(f"STAT_GET dump without kind", "STAT_GET", dev, REQUEST | DUMP)
        ask(f"FRMR_POOLS_GET {index} dump", "FRMR_POOLS_GET", dev, REQUEST | DUMP)
        ask(f"FRMR_POOLS_GET {index}", "FRMR_POOLS_GET", dev)
    ask("MONITOR", "MONITOR")
    for op in 0, 8, 31, 40, 1023:
        collect(link, raw, f"operation {op}", op)
        collect(link, raw, f"operation {op} dump", op, b"", REQUEST | DUMP)


READ_ONLY = ["GET", "PORT_GET", "SYS_GET", "RES_GET", "RES_QP_GET", "RES_CM_ID_GET", "RES_CQ_GET",
             "RES_MR_GET", "RES_PD_GET", "GET_CHARDEV", "STAT_GET", "RES_QP_GET_RAW",
             "RES_CQ_GET_RAW", "RES_MR_GET_RAW", "RES_CTX_GET", "RES_SRQ_GET", "STAT_GET_STATUS",
             "RES_SRQ_GET_RAW", "FRMR_POOLS_GET"]


def verdict(link, with_extack=True):
    """The errors and the kinds of replies to what was just sent."""
    words = []
    for d in link.datagrams(patience=0.3):
        if isinstance(d, OSError):
            words.append(f"recv{d.errno}")
            continue
        for n, t, f, s, p, body in messages(d):
            if t == 2:
                err, = struct.unpack_from("=i", body)
                words.append(f"err{err}")
                # The offsets and texts of extended errors.
                skip = 20 if f & 0x100 else max(20, 4 + struct.unpack_from("=I", body, 4)[0])
                for k, payload, _ in attrs_of(body[skip:]) if with_extack else ():
                    words.append(f"x{k & 0x3fff}={payload.hex()}")
            elif t == 3:
                words.append("done" + body[:4].hex())
            else:
                words.append(f"{t:#x}/{n}")
    return " ".join(words) or "silence"


def hostile():
    link = Link(portid=4242)
    devices = find(list(ask_all(link)), "DEV_INDEX")
    index = devices[0] if devices else 0
    dev, nowhere, port = u32("DEV_INDEX", index), u32("DEV_INDEX", 9999), u32("PORT_INDEX", 1)

    def ask(title, op, attrs, flags=REQUEST | ACK, client=NLDEV):
        link.request(op, attrs, flags, client)
        print(f"{title}: {verdict(link)}")

    # Headers.
    good = struct.pack("=IHHII", 24, NLDEV << 10 | 1, REQUEST | ACK, 77, 0) + dev
    for title, data in [
            ("short header", good[:12]), ("length 0", b"\0\0\0\0" + good[4:]),
            ("length 15", struct.pack("=I", 15) + good[4:]), ("length 17", struct.pack("=I", 17) + good[4:]),
            ("length beyond", struct.pack("=I", 25) + good[4:]),
            ("length huge", struct.pack("=I", 0xffffffff) + good[4:]),
            ("no request flag", good[:6] + b"\4\0" + good[8:]),
            ("control type", good[:4] + b"\x01\0" + good[6:]),
            ("control type 15", good[:4] + b"\x0f\0" + good[6:]),
            ("bad client", good[:4] + struct.pack("=H", 6 << 10 | 1) + good[6:]),
            ("client 63", good[:4] + struct.pack("=H", 63 << 10 | 1) + good[6:]),
            ("reserved client", good[:4] + struct.pack("=H", 3 << 10 | 0) + good[6:]),
            ("two messages", good + good), ("bad then good", struct.pack("=IHHII", 16, NLDEV << 10 | 1, 5, 7, 0) + good),
            ("good, truncated good", good + good[:20])]:
        link.send(data)
        print(f"{title}: {verdict(link)}")
        # What a second message of the same buffer brought.
        rest = verdict(link) if title in ("two messages", "bad then good") else ""
        if rest:
            print(f"{title}, second: {rest}")

    # The local service (B12).
    for op, what in (0, "RESOLVE"), (1, "SET_TIMEOUT"), (2, "IP_RESOLVE"), (3, "none"):
        for title, attrs in [("empty", b"")] + [(f"gid {n}", attr(4, b"\x11" * n)) for n in (0, 4, 15, 16, 17)] + \
                [(f"attribute {k}", u32(k, 1)) for k in range(1, 12)]:
            for flags in (REQUEST | ACK, ACK, 0x100, 0x400 | ACK):
                ask(f"LS {what} {title} flags {flags:#x}", op, attrs, flags, LS)
    for op in range(0, 11):
        ask(f"IWCM {op}", op, b"", REQUEST | ACK, IWCM)

    # Statistics containers (B13).
    for n in (0, 1, 2, 3, 4, 5, 8):
        inner = pad(struct.pack("=HH", 4 + n, 1) + b"\xff" * n)
        ask(f"STAT_SET child of {n}", CMDS["STAT_SET"], dev + port + nest("STAT_HWCOUNTERS", inner))
    for value in (0, 1, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff):
        ask(f"STAT_SET index {value:#x}", CMDS["STAT_SET"],
            dev + port + nest("STAT_HWCOUNTERS", u32("STAT_HWCOUNTER_INDEX", value)))
    ask("STAT_SET unmarked", CMDS["STAT_SET"], dev + port + attr("STAT_HWCOUNTERS", u32(96, 1)))
    ask("STAT_SET empty", CMDS["STAT_SET"], dev + port + nest("STAT_HWCOUNTERS", b""))
    ask("STAT_SET nothing", CMDS["STAT_SET"], dev + port)
    for mode in range(5):
        for extra, name in ((b"", ""), (u32("STAT_RES", A["RES_MR"]), " MR"), (u32("STAT_RES", A["RES_QP"]), " QP"),
                            (u32("STAT_RES", A["RES_QP"]) + u32("RES_LQPN", 99), " QP 99"),
                            (u32("STAT_RES", A["RES_QP"]) + u32("RES_LQPN", 99) + u32("STAT_COUNTER_ID", 5), " QP 99 counter 5"),
                            (u32("STAT_RES", A["RES_QP"]) + u32("STAT_AUTO_MODE_MASK", 0xff), " mask ff")):
            ask(f"STAT_SET mode {mode}{name}", CMDS["STAT_SET"], dev + port + u32("STAT_MODE", mode) + extra)
    full = u32("STAT_RES", A["RES_QP"]) + u32("STAT_COUNTER_ID", 7) + u32("RES_LQPN", 99)
    ask("STAT_DEL", CMDS["STAT_DEL"], dev + port + full)
    ask("STAT_DEL port 9", CMDS["STAT_DEL"], dev + u32("PORT_INDEX", 9) + full)

    # Names.
    for n in (0, 1, 14, 15, 16, 17, 62, 63, 64, 65, 66, 200):
        for end, how in (b"", "open"), (b"\0", "closed"), (b"\0junk", "junk"):
            name = attr("DEV_NAME", b"n" * n + end)
            ask(f"SET name {n} {how}", CMDS["SET"], nowhere + name)
            ask(f"NEWLINK name {n} {how}", CMDS["NEWLINK"],
                name + text("LINK_TYPE", "rxe") + text("NDEV_NAME", "nosuch0"))
            ask(f"NEWLINK type {n} {how}", CMDS["NEWLINK"],
                text("DEV_NAME", "x") + attr("LINK_TYPE", b"t" * n + end) + text("NDEV_NAME", "lo"))
            ask(f"NEWLINK netdev {n} {how}", CMDS["NEWLINK"],
                text("DEV_NAME", "x") + text("LINK_TYPE", "rxe") + attr("NDEV_NAME", b"d" * n + end))
            ask(f"CHARDEV type {n} {how}", CMDS["GET_CHARDEV"], attr("CHARDEV_TYPE", b"c" * n + end))
            ask(f"NEWDEV name {n} {how}", CMDS["NEWDEV"], dev + u8("DEV_TYPE", 1) + name)
    for name in "%d", "rxe%d", "a%", "":
        ask(f"NEWLINK {name}", CMDS["NEWLINK"],
            text("DEV_NAME", name) + text("LINK_TYPE", "rxe") + text("NDEV_NAME", "lo"))
        ask(f"SET {name}", CMDS["SET"], dev + text("DEV_NAME", name) + u32("NET_NS_FD", 999))
    ask("SET nothing", CMDS["SET"], dev)
    ask("SET netns bad fd", CMDS["SET"], dev + u32("NET_NS_FD", 999))
    ask("SYS_SET nothing", CMDS["SYS_SET"], b"")
    for v in 2, 255:
        ask(f"SYS_SET netns {v}", CMDS["SYS_SET"], u8("NETNS_MODE", v))
        ask(f"SYS_SET qkey {v}", CMDS["SYS_SET"], u8("PRIVILEGED_QKEY_MODE", v))
    ask("DELLINK nowhere", CMDS["DELLINK"], nowhere)
    ask("DELDEV nowhere", CMDS["DELDEV"], nowhere)
    ask("DELDEV not a subdevice", CMDS["DELDEV"], dev)
    for key in b"", nest("FRMR_POOL_KEY", b""), nest("FRMR_POOL_KEY", u8("FRMR_POOL_KEY_ATS", 1)), \
            nest("FRMR_POOL_KEY", u64("FRMR_POOL_KEY_KERNEL_VENDOR_KEY", 1)), \
            attr("FRMR_POOL_KEY", u8("FRMR_POOL_KEY_ATS", 1)), nest("FRMR_POOL_KEY", u32(200, 1)), \
            nest("FRMR_POOL_KEY", b"\1\0\2"):
        ask(f"FRMR_POOLS_SET pinned {key.hex()}", CMDS["FRMR_POOLS_SET"],
            dev + u32("FRMR_POOL_PINNED_HANDLES", 1) + key)
    ask("FRMR_POOLS_SET aging", CMDS["FRMR_POOLS_SET"], dev + u32("FRMR_POOLS_AGING_PERIOD", 0))
    ask("FRMR_POOLS_SET nothing", CMDS["FRMR_POOLS_SET"], dev)

    # Every attribute in every command, in every wrong size.
    sizes = {0: (0, 1, 3, 4, 5, 8, 9, 66, 129), 0x8000: (0, 4, 8)}
    for cmd, op in CMDS.items():
        base = dev + port if cmd in READ_ONLY else nowhere
        for kind in list(range(0, len(NAMES))) + [len(NAMES), 200, 0x3fff]:
            for flags in (0, 0x8000):
                lines = []
                for n in sizes[flags]:
                    fill = b"\xff" * n if not kind == A["PORT_INDEX"] else b"\x07" * n
                    for f in (REQUEST | ACK, REQUEST | DUMP):
                        link.request(op, base + attr(kind, fill, flags), f)
                        lines.append(verdict(link, with_extack=(n in (0, 3))))
                print(f"{cmd} attribute {kind} flags {flags:#x}: " + " | ".join(lines))
    # Broken attribute headers.
    for cmd, op in CMDS.items():
        base = dev + port if cmd in READ_ONLY else nowhere
        for tail in b"\0", b"\4\0", b"\4\0\1", b"\0\0\1\0", b"\3\0\1\0", b"\5\0\1\0", b"\xff\xff\1\0", \
                b"\x08\0\1\0\1\0\0", b"\4\0\1\0":
            for f in (REQUEST | ACK, REQUEST | DUMP):
                link.request(op, base + tail, f)
                print(f"{cmd} tail {tail.hex()} flags {f:#x}: {verdict(link)}")


def ask_all(link):
    link.request(CMDS["GET"], b"", REQUEST | DUMP)
    return link.datagrams()


def mutate(count):
    rng = random.Random(20)
    link = Link(portid=4242)
    devices = find(list(ask_all(link)), "DEV_INDEX")
    index = devices[0] if devices else 0
    dev, port = u32("DEV_INDEX", index), u32("PORT_INDEX", 1)
    harmless = READ_ONLY + ["STAT_SET", "STAT_DEL", "NEWDEV", "FRMR_POOLS_SET"]
    for i in range(count):
        cmd = rng.choice(harmless)
        body = bytearray(dev + port)
        for _ in range(rng.randrange(4)):
            body += attr(rng.randrange(len(NAMES) + 4), bytes(rng.randrange(256) for _ in range(rng.choice((0, 1, 4, 4, 4, 8, 8, 20)))),
                         rng.choice((0, 0, 0x8000)))
        for _ in range(rng.randrange(3)):
            if body:
                body[rng.randrange(len(body))] = rng.randrange(256)
        body = body[:rng.randrange(len(body) + 1)] if rng.random() < 0.2 else body
        flags = REQUEST | (DUMP if rng.random() < 0.3 else ACK)
        link.request(CMDS[cmd], bytes(body), flags)
        print(f"{i} {cmd} {flags:#x} {bytes(body).hex()}: {verdict(link)}")


def monitor(seconds):
    link = Link(groups=1 << 3)
    end = time.time() + seconds
    print("ready", file=sys.stderr, flush=True)
    while time.time() < end:
        ready, _, _ = select.select([link.s], [], [], end - time.time())
        if ready:
            out = []
            show(link.s.recv(1 << 16), True, out)
            print("\n".join(out), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("dump", "hostile", "monitor", "mutate"))
    p.add_argument("number", nargs="?", type=int, default=10)
    p.add_argument("--raw", action="store_true")
    p.add_argument("--nobody", action="store_true")
    a = p.parse_args()
    if a.nobody:
        os.setgid(65534)
        os.setuid(65534)
    {"dump": lambda: dump(a.raw), "hostile": hostile, "monitor": lambda: monitor(a.number),
     "mutate": lambda: mutate(a.number)}[a.what]()


main()
