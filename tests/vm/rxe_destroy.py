#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rxe_destroy.py CASE ROUNDS: that often CASE, on the two links of rig_veth (lib.sh):

destroy    queue pairs are destroyed
kill       their process is killed
link       a link is deleted
interface  an interface is deleted, and so both
namespace  the namespace of a link is deleted

each time while four pairs of queue pairs write and read 64 KiB messages in both directions. In every
second round their packets are held in queue disciplines then, which would let them go after ten minutes;
nothing may wait for that. Prints how long it took at most, in both kinds of rounds. Destroying and
killing may take a second.
"""
import gc
import json
import os
import select
import signal
import subprocess
import sys
import time

gc.disable()    # pyverbs 56.1 under Python 3.13: a cyclic pass can crash
import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.pd import PD

from endpoint import STATUS, Endpoint, gid_index

SLOWER = int(os.environ.get("slower", "1"))
PAIRS, SIZE = 4, 65536
# Seconds: until a queue pair or a process is gone, and until links are.
LIMIT, LINK_LIMIT = 1 * SLOWER, 20 * SLOWER
PEER = ("ip", "netns", "exec", "peer")


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LINK_LIMIT + 40)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def devices():
    return sorted(os.listdir("/sys/class/infiniband"))


def wait_until(condition, what, seconds=LINK_LIMIT, instead=None):
    """`instead` tells what there is when it has not come true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {seconds} s{f', but {instead()}' if instead else ''}")
        time.sleep(0.002)


def rig():
    """As rig_veth, what there is not yet. The neighbours need not be asked for, as their answers would be held, too."""
    if not os.path.exists("/run/netns/peer"):
        run("ip", "netns", "add", "peer")
    if not os.path.exists("/sys/class/net/va"):
        run("ip", "-batch", "-", text="""link add va address 02:00:00:00:00:01 type veth peer name vb
link set vb netns peer
link set va up
addr add 10.9.0.1/24 dev va
""")
        run("ip", "-n", "peer", "-batch", "-", text="""link set vb address 02:00:00:00:00:02 up
addr add 10.9.0.2/24 dev vb
""")
    run("ip", "neigh", "replace", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", "va", "nud", "permanent")
    run("ip", "-n", "peer", "neigh", "replace", "10.9.0.1", "lladdr", "02:00:00:00:00:01", "dev", "vb", "nud", "permanent")
    for device, prefix, interface in (("rxe0", (), "va"), ("rxe1", PEER, "vb")):
        if device not in devices():
            run(*prefix, "rdma", "link", "add", device, "type", "rxe", "netdev", interface)


def gid(device, address):
    """Index of its GID, which a worker enters some time after the link was made."""
    found = []

    def there():
        try:
            found.append(gid_index(device, address))
        except SystemExit:
            return False
        return True
    wait_until(there, f"GID of {device}")
    return found[-1]


class Sender:
    """An end that writes or reads all the time."""

    def __init__(self, end, op):
        self.end, self.op, self.alive = end, op, True
        for _ in range(4):
            end.post(op, SIZE)

    def go_on(self):
        """Takes completions, posts as many requests, returns how many."""
        if not self.alive:
            return 0
        count, wcs = self.end.cq.poll(8)
        statuses = {wc.status for wc in wcs} - {e.IBV_WC_SUCCESS}
        if statuses:
            self.alive = False
            # Held packets, and those of a peer that is gone, are not answered.
            if not statuses <= {e.IBV_WC_RETRY_EXC_ERR, e.IBV_WC_WR_FLUSH_ERR}:
                raise SystemExit(f"{self.op}: {sorted(STATUS[s] for s in statuses)}")
            return 0
        for _ in range(count):
            self.end.post(self.op, SIZE)
        return count


def traffic(commands, answers):
    """Sends until it is killed or told to destroy the queue pairs."""
    ends = []
    contexts = [Context(name="rxe0"), Context(name="rxe1")]
    domains = [PD(ctx) for ctx in contexts]
    gids = [gid("rxe0", "ffff:0a09:0001"), gid("rxe1", "ffff:0a09:0002")]
    for n in range(PAIRS):
        # A second, so that some of what is held is sent again soon; hours, so that a timer that is left would keep
        # the module, and the others need not hurry.
        timeout = (18, 31)[n % 2]
        a, b = (Endpoint(None, g, size=SIZE, ctx=ctx, pd=pd, timeout=timeout)
                for ctx, pd, g in zip(contexts, domains, gids))
        a.connect(b.info())
        b.connect(a.info())
        ends += [(a, "write"), (b, "read")]
    senders = [Sender(end, op) for end, op in ends]
    # From when on it is going on: each has come round once.
    waiting = set(senders)
    while True:
        some = 0
        for sender in senders:
            count = sender.go_on()
            some += count
            if count and sender in waiting:
                waiting.remove(sender)
                if not waiting:
                    os.write(answers, b"going on\n")
        if select.select([commands], [], [], 0 if some else 0.001)[0]:
            break
    worst = 0
    for sender in senders:
        start = time.monotonic_ns()
        sender.end.qp.close()
        worst = max(worst, time.monotonic_ns() - start)
    os.write(answers, f"{worst / 1e9}\n".encode())
    os._exit(0)


QDISCS = (("tc",), "va"), (("tc", "-n", "peer"), "vb")


def queued():
    """How many packets each queue discipline holds."""
    return [json.loads(run(*tc, "-s", "-j", "qdisc", "show", "dev", interface))[0]["qlen"] for tc, interface in QDISCS]


def hold():
    """From now on packets are held in queue disciplines. Waits until there are some, and some were sent again."""
    for tc, interface in QDISCS:
        # Not "delay", with which netem tells the owner of a packet that it is gone.
        run(*tc, "qdisc", "add", "dev", interface, "root", "netem", "slot", "600s", "limit", "100000")
    wait_until(lambda: queued()[0] > 64 and queued()[1], "packets in the queue disciplines", instead=queued)


def release():
    """What was held is dropped."""
    for tc, interface in QDISCS:
        run(*tc, "qdisc", "del", "dev", interface, "root")


class Traffic:
    """A process that sends."""

    def __init__(self):
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.commands)
            try:
                traffic(commands, answers)
            except BaseException as err:
                os.write(answers, f"{err!r}\n".encode())
                os._exit(1)
        os.close(commands)
        os.close(answers)
        answer = self.answer(60 * SLOWER)
        if answer != "going on":
            self.kill()
            raise SystemExit(f"no traffic: {answer}")

    def answer(self, seconds):
        if not select.select([self.answers], [], [], seconds)[0]:
            return "nothing"
        return os.read(self.answers, 1000).decode().strip()

    def destroy(self):
        """Seconds that the slowest queue pair took."""
        os.write(self.commands, b"x")
        answer = self.answer(90 * SLOWER)
        try:
            return float(answer)
        except ValueError:
            raise SystemExit(f"destroying: {answer}") from None

    def kill(self):
        start = time.monotonic()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        taken = time.monotonic() - start
        os.close(self.commands)
        os.close(self.answers)
        return taken


def timed(command, gone):
    """Seconds until the command has ended and these devices are gone."""
    start = time.monotonic()
    run(*command)
    wait_until(lambda: not any(d in devices() for d in gone), f"end of {', '.join(gone)}")
    return time.monotonic() - start


def one(case, number, held):
    """A round; how long what it is about took, and the end of the process afterwards."""
    rig()
    sender = Traffic()
    taken = None
    try:
        if held:
            hold()
        if case == "destroy":
            taken = sender.destroy()
        elif case == "link":
            prefix, device = ((), "rxe0") if number % 4 < 2 else (PEER, "rxe1")
            taken = timed((*prefix, "rdma", "link", "delete", device), [device])
        elif case == "interface":
            prefix, name = (("ip",), "va") if number % 4 < 2 else (("ip", "-n", "peer"), "vb")
            taken = timed((*prefix, "link", "delete", name), ["rxe0", "rxe1"])
        elif case == "namespace":
            taken = timed(("ip", "netns", "delete", "peer"), ["rxe0", "rxe1"])
    finally:
        end = sender.kill()
    if case in ("interface", "namespace"):
        wait_until(lambda: not os.path.exists("/sys/class/net/va"), "end of va")
    elif held:
        release()
    if case == "kill":
        return end, 0
    return taken, end


def main():
    case, rounds = sys.argv[1], int(sys.argv[2])
    limit = LIMIT if case in ("destroy", "kill") else LINK_LIMIT
    worst, worst_end = [0, 0], [0, 0]
    for number in range(rounds):
        held = number % 2
        taken, end = one(case, number, held)
        worst[held] = max(worst[held], taken)
        worst_end[held] = max(worst_end[held], end)
        if taken > limit or end > LIMIT:
            raise SystemExit(f"round {number}{' with packets held' if held else ''}: {taken:.3f} s, then {end:.3f} s "
                             "until the process was gone")
    print(f"{case}: {rounds} rounds, at most {1000 * worst[0]:.1f} ms, with packets held {1000 * worst[1]:.1f} ms; "
          f"then the process {1000 * worst_end[0]:.1f} ms and {1000 * worst_end[1]:.1f} ms")


main()
