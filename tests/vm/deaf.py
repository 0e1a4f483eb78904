#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""deaf.py SECONDS: joins the group of RDMA events and never reads one.

Its buffer is as small as the kernel allows, and it asks for the sender to be
told when it misses an event (NETLINK_BROADCAST_ERROR). Prints a line when it has
joined.
"""
import socket
import sys
import time

NETLINK_RDMA = 20
SOL_NETLINK = 270
ADD_MEMBERSHIP = 1
BROADCAST_ERROR = 4
GROUP_NOTIFY = 4

s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
s.setsockopt(SOL_NETLINK, BROADCAST_ERROR, 1)
s.bind((0, 0))
s.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, GROUP_NOTIFY)
print("joined", flush=True)
time.sleep(float(sys.argv[1]))
