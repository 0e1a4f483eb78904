# SPDX-License-Identifier: GPL-2.0
"""NETLINK_RDMA by hand: messages as bytes, so that they can be wrong."""
import errno
import os
import socket
import struct

NETLINK_RDMA = 20
REQUEST, ACK, DUMP = 1, 4, 0x300
IWCM, LS, NLDEV = 2, 4, 5
NLM_ERROR, NLM_DONE = 2, 3

GET, SET, NEWLINK, DELLINK, PORT_GET, SYS_GET, SYS_SET = 1, 2, 3, 4, 5, 6, 7
RES_GET, RES_QP, RES_CM_ID, RES_CQ, RES_MR, RES_PD, CHARDEV = 9, 10, 11, 12, 13, 14, 15
STAT_SET, STAT_GET, STAT_DEL = 16, 17, 18
RES_QP_RAW, RES_CQ_RAW, RES_MR_RAW, RES_CTX, RES_SRQ, STAT_STATUS, RES_SRQ_RAW = 19, 20, 21, 22, 23, 24, 25
NEWDEV, DELDEV, MONITOR, FRMR_GET, FRMR_SET = 26, 27, 28, 29, 30
NUM_OPS = 31
# How much slower the kernel is than the distribution's (lib.sh).
SLOWER = int(os.environ.get("slower", "1"))

DEV_INDEX, DEV_NAME, PORT_INDEX, NDEV_NAME = 1, 2, 3, 51
RES_LQPN, RES_CQN, RES_MRN, RES_PDN, RES_CM_IDN, RES_CTXN, RES_SRQN = 21, 61, 62, 60, 63, 64, 90
LINK_TYPE, NETNS_MODE, NET_NS_FD, CHARDEV_TYPE, STAT_MODE, STAT_RES = 65, 66, 68, 69, 74, 75
STAT_AUTO_MASK, STAT_COUNTER_ID, HWCOUNTERS, HWC_ENTRY, HWC_INDEX, HWC_DYNAMIC = 76, 79, 80, 81, 94, 95
DEV_DIM, QKEY_MODE, DRIVER_DETAILS, DEV_TYPE, MAX = 84, 96, 97, 99, 119


def attr(kind, payload=b"", length=None):
    """One attribute; LENGTH overrides the length field."""
    if isinstance(payload, int):
        payload = struct.pack("=I", payload)
    if isinstance(payload, str):
        payload = payload.encode() + b"\0"
    n = 4 + len(payload) if length is None else length
    return struct.pack("=HH", n & 0xFFFF, kind) + payload + b"\0" * (-len(payload) % 4)


def name(code):
    return errno.errorcode.get(code, str(code))


class Socket:
    def __init__(self, timeout=5):
        self.s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
        self.s.bind((0, 0))
        self.s.settimeout(timeout * SLOWER)
        self.seq = 0

    def close(self):
        self.s.close()

    def send(self, client, op, payload=b"", flags=REQUEST | ACK, length=None, seq=None):
        self.seq += 1
        seq = self.seq if seq is None else seq
        n = 16 + len(payload) if length is None else length
        self.s.send(struct.pack("=IHHII", n, client << 10 | op, flags, seq, 0) + payload)
        return seq

    def recv(self):
        """[(type, flags, seq, payload)] of one datagram."""
        data = self.s.recv(1 << 18)
        out = []
        while len(data) >= 16:
            n, kind, flags, seq, _ = struct.unpack_from("=IHHII", data)
            if n < 16:
                break
            out.append((kind, flags, seq, data[16:n]))
            data = data[(n + 3) & ~3:]
        return out

    def call(self, client, op, payload=b"", flags=REQUEST | ACK, **kw):
        """(result, messages): result is "OK" or the name of the errno, or
        "SILENT" when nothing comes."""
        messages = []
        try:
            self.send(client, op, payload, flags, **kw)
        except OSError as err:
            return "send:" + name(err.errno), messages
        while True:
            try:
                got = self.recv()
            except (socket.timeout, BlockingIOError):
                return "SILENT", messages
            except OSError as err:
                return "recv:" + name(err.errno), messages
            for kind, fl, seq, body in got:
                if seq != self.seq and kw.get("seq") is None:
                    continue
                if kind == NLM_ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    return ("OK" if code == 0 else name(code)), messages
                if kind == NLM_DONE:
                    code = -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
                    return ("OK" if code == 0 else name(code)), messages
                messages.append((kind, fl, body))


def parse(body):
    """{type: payload} of the top-level attributes of an answer."""
    found = {}
    while len(body) >= 4:
        n, kind = struct.unpack_from("=HH", body)
        if n < 4:
            break
        found[kind & 0x3FFF] = body[4:n]
        body = body[(n + 3) & ~3:]
    return found


def device_index(dev):
    with Closing(Socket()) as s:
        _, messages = s.call(NLDEV, GET, flags=REQUEST | DUMP)
        for _, _, body in messages:
            a = parse(body)
            if a[DEV_NAME].rstrip(b"\0").decode() == dev:
                return struct.unpack("=I", a[DEV_INDEX])[0]
    raise LookupError(dev)


class Closing:
    def __init__(self, s):
        self.s = s

    def __enter__(self):
        return self.s

    def __exit__(self, *_):
        self.s.close()


def drop_privileges():
    os.setgid(65534)
    os.setuid(65534)
