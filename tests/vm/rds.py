#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rds.py ADDRESS: messages between two RDS sockets of ADDRESS by the RDMA
transport, both ways at once; each must arrive once, whole and in order."""
import hashlib
import socket
import struct
import sys
import threading

SOL_RDS = 276
SO_RDS_TRANSPORT, TRANSPORT_IB = 8, 0
SIZES = [0, 1, 2, 4095, 4096, 4097, 12289, 65536, 200000, 1 << 20]
ROUNDS = 5
PORTS = (4000, 4001)


def message(port, number, size):
    """Starts with its number; what follows depends on all three."""
    head = struct.pack("<II", port, number)
    seed = hashlib.sha256(head).digest()
    return (head + seed * (size // len(seed) + 1))[:size]


def opened(address, port):
    s = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET, 0)
    s.setsockopt(SOL_RDS, SO_RDS_TRANSPORT, struct.pack("i", TRANSPORT_IB))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    s.settimeout(60)
    s.bind((address, port))
    return s


def main():
    address = sys.argv[1]
    ends = [opened(address, port) for port in PORTS]
    sizes = SIZES * ROUNDS
    failed = []

    def send(end, port, peer):
        for number, size in enumerate(sizes):
            end.sendto(message(port, number, size), (address, peer))

    def receive(end, peer):
        for number, size in enumerate(sizes):
            data, sender = end.recvfrom(2 << 20)
            if data != message(peer, number, size) or sender != (address, peer):
                failed.append(f"message {number} from {sender}: {len(data)} bytes instead of {size}, or others")
                return

    def guarded(run, *args):
        try:
            run(*args)
        except OSError as e:
            failed.append(f"{run.__name__}: {e}")

    threads = []
    for end, port, peer in ((ends[0], *PORTS), (ends[1], *reversed(PORTS))):
        threads.append(threading.Thread(target=guarded, args=(send, end, port, peer)))
        threads.append(threading.Thread(target=guarded, args=(receive, end, peer)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for end in ends:
        end.close()
    for line in failed:
        print(line)
    print(f"{2 * len(sizes)} messages, {2 * sum(sizes)} bytes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
