#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tunnel.py tun|wireguard NAMESPACE: two interfaces without Ethernet, one here
(t0, 10.9.7.1) and one in NAMESPACE (t1, 10.9.7.2), each the way to the other.

Of tun devices this program is the wire, so it stays; ends when it is killed.
For WireGuard it sets the keys of t0 and t1, which exist on top of the veth
10.9.0.1 - 10.9.0.2, and ends.
"""
import ctypes
import fcntl
import os
import select
import socket
import struct
import sys

kind, namespace = sys.argv[1:]


def enter(path):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(path, os.O_RDONLY)
    if libc.setns(fd, 0x40000000):
        raise OSError(ctypes.get_errno(), path)
    os.close(fd)


def tun(name):
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))  # IFF_TUN, no header
    return fd


def wire():
    here = tun("t0")
    enter(f"/run/netns/{namespace}")
    there = tun("t1")
    print("ready", flush=True)
    while True:
        for fd in select.select([here, there], [], [])[0]:
            try:
                os.write(there if fd == here else here, os.read(fd, 65536))
            except OSError:
                pass    # One of them is down.


def public_key(private):
    """X25519 of the base point (RFC 7748)."""
    p = 2**255 - 19
    k = int.from_bytes(private, "little") & ~7 & (1 << 255) - 1 | 1 << 254
    x2, z2, x3, z3, swap = 1, 0, 9, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % p, b * b % p, d * a % p, c * b % p
        x3, z3 = (da + cb) ** 2 % p, 9 * (da - cb) ** 2 % p
        x2, z2 = aa * bb % p, (aa - bb) * (aa + 121665 * (aa - bb)) % p
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, p - 2, p) % p).to_bytes(32, "little")


def attr(kind, payload):
    return struct.pack("=HH", 4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def generic(sock, family, command, version, payload):
    body = struct.pack("=BBH", command, version, 0) + payload
    sock.send(struct.pack("=IHHII", 16 + len(body), family, 5, 1, 0) + body)
    answer = b""
    while True:
        data = sock.recv(65536)
        while data:
            length, message = struct.unpack_from("=IH", data)
            if message == 2:
                error = -struct.unpack_from("=i", data, 16)[0]
                if error:
                    raise OSError(error, os.strerror(error))
                return answer
            answer = data[20:length]
            data = data[(length + 3) & ~3:]


def set_keys(name, private, peer, endpoint):
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    sock.bind((0, 0))
    answer = generic(sock, 16, 3, 1, attr(2, b"wireguard\0"))
    at = 0
    while struct.unpack_from("=H", answer, at + 2)[0] != 1:
        at += (struct.unpack_from("=H", answer, at)[0] + 3) & ~3
    family = struct.unpack_from("=H", answer, at + 4)[0]
    nested = 0x8000
    address = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(51820), socket.inet_aton(endpoint))
    anywhere = attr(nested, attr(1, struct.pack("=H", socket.AF_INET)) + attr(2, bytes(4)) + attr(3, b"\0"))
    peers = attr(nested, attr(1, peer) + attr(4, address) + attr(9 | nested, anywhere))
    generic(sock, family, 1, 1, attr(2, name.encode() + b"\0") + attr(3, private) +
            attr(6, struct.pack("=H", 51820)) + attr(8 | nested, peers))


if kind == "tun":
    wire()
keys = [os.urandom(32) for _ in range(2)]
public = [public_key(key) for key in keys]
set_keys("t0", keys[0], public[1], "10.9.0.2")
enter(f"/run/netns/{namespace}")
set_keys("t1", keys[1], public[0], "10.9.0.1")
