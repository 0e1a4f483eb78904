#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""faults.py GROUP...: fails each allocation of a call once, see faults.sh."""
import ctypes
import errno
import gc
import itertools
import os
import re
import socket
import subprocess
import sys
import time

gc.disable()    # pyverbs 56.1 under Python 3.13: a cyclic pass can crash
import nl

DEVICE = "rxe0"
ATTRS = ("failslab", "fail_page_alloc", "fail_usercopy")
# No walk is expected to be longer.
LIMIT = 3000
# Of a call with more allocations than this (a link of rxe with 3,000 sysfs nodes, which take
# seconds) only the first, the last and some between fail.
ALL = 1200
SAMPLE = 50
# As many for each third of a module's allocations at its load.
LOADS = 30
# What a caller may be told: no memory, a copy that failed, a reply that could not be made.
ALLOWED = {errno.ENOMEM, errno.EFAULT, errno.ENOBUFS}
failures = 0


def knob(name, value):
    for attr in ATTRS:
        path = f"/sys/kernel/debug/{attr}/{name}"
        if os.path.exists(path):
            with open(path, "w") as f:
                f.write(str(value))


def only_stacks_in(start, end):
    """Counts and fails only allocations with a caller in that text."""
    knob("require-start", f"{start:#x}")
    knob("require-end", f"{end:#x}")


def text_of(module):
    """(start, end) of a module's code."""
    sections = f"/sys/module/{module}/sections"
    with open(f"{sections}/.text") as f:
        start = int(f.read(), 16)
    # The sections of one permission lie together; the next ones begin on a page.
    with open("/proc/kallsyms") as f:
        last = max(int(line.split()[0], 16) for line in f
                   if line.rstrip().endswith(f"[{module}]") and line.split()[1] in "tT"
                   and start <= int(line.split()[0], 16) < start + (1 << 24))
    return start, last + 1


def modules_area():
    """All modules, those to come as well."""
    return 0xFFFFFFFFA0000000, 0xFFFFFFFFFF000000


class FailNth:
    """The kernel's per-thread fault counter."""

    def __init__(self):
        self.fd = os.open(f"/proc/self/task/{os.getpid()}/fail-nth", os.O_RDWR)

    def arm(self, n):
        os.pwrite(self.fd, str(n).encode(), 0)

    def disarm(self):
        """Whether the fault was injected."""
        left = int(os.pread(self.fd, 16, 0))
        if left:
            os.pwrite(self.fd, b"0", 0)
        return left == 0

    def count(self, call):
        """How many allocations a call makes when none fails, and what it returns."""
        many = 1 << 30
        self.arm(many)
        try:
            got = call()
        finally:
            left = int(os.pread(self.fd, 16, 0))
            os.pwrite(self.fd, b"0", 0)
        return many - left, got


def plan(total, most=ALL, sample=SAMPLE):
    """Numbers of the allocations to fail, of TOTAL that were counted: all, if there are not more
    than MOST, or the first SAMPLE, the last and as many of those between. The count may be lower
    than that of a later call, so it goes on from there."""
    if total <= most:
        return itertools.count(1)
    between = range(sample + 1, total - sample, (total - 2 * sample) // sample)
    return itertools.chain(range(1, sample + 1), between, itertools.count(total - sample))


def errno_of(exc):
    for name in ("error_code", "errno"):
        code = getattr(exc, name, None)
        if isinstance(code, int) and code:
            return abs(code)
    return None


def announce(name):
    """In the kernel's log; scripts/vm knows by it that allocations are made to fail."""
    with open("/dev/kmsg", "w") as f:
        f.write(f"<6>test: start faults:{name}\n")


def result(status, name, detail):
    global failures
    failures += status == "FAIL"
    print(f"{status} faults:{name} {detail}", flush=True)
    with open("/dev/kmsg", "w") as f:
        f.write(f"<6>test: {status} faults:{name}\n")


def objects():
    """What the kernel says exists: devices and the counts of their objects."""
    found = {}
    with nl.Closing(nl.Socket()) as s:
        _, messages = s.call(nl.NLDEV, nl.RES_GET, flags=nl.REQUEST | nl.DUMP)
        for _, _, body in messages:
            attrs = nl.parse(body)
            found[attrs[nl.DEV_NAME]] = sorted((k, v) for k, v in attrs.items() if k != nl.DEV_INDEX)
    return found


def settle(want):
    """Objects go in work items as well."""
    for _ in range(100):
        have = objects()
        if have == want:
            return None
        time.sleep(0.05)
    return f"objects {have}, before {want}"


def walk(name, call, undo=lambda result: None, allowed=ALLOWED, nth=None, baseline=None, sample=SAMPLE):
    """CALL with its first, second ... allocation failing; UNDO(result) after a success."""
    nth = nth or FailNth()
    want = objects() if baseline is None else baseline
    refused, survived, codes = 0, 0, set()
    announce(name)
    try:
        total, got = nth.count(call)
    except Exception as exc:
        none = errno_of(exc) == errno.EOPNOTSUPP
        return result("SKIP" if none else "FAIL", name, f"fails without a fault: {exc!r}")
    undo(got)
    wrong = settle(want)
    if wrong:
        return result("FAIL", name, f"without a fault: {wrong}")
    if total == 0:
        return result("SKIP", name, "allocates nothing")
    for n in itertools.islice(plan(total, sample=sample), LIMIT):
        nth.arm(n)
        try:
            got = call()
            failed = None
        except Exception as exc:
            failed = exc
        injected = nth.disarm()
        if failed is not None:
            code = errno_of(failed)
            if not injected:
                return result("FAIL", name, f"fails without a fault: {failed!r}")
            if code not in allowed:
                return result("FAIL", name, f"allocation {n}: {errno.errorcode.get(code, code)}: {failed!r}")
            refused += 1
            codes.add(errno.errorcode[code])
        else:
            undo(got)
            survived += injected
        wrong = settle(want)
        if wrong:
            return result("FAIL", name, f"allocation {n}: {wrong}")
        if not injected:
            failed = f"{refused + survived}{'' if total <= ALL else f' of {total}'} failed"
            return result("PASS", name, f"{failed}, {refused} refused ({' '.join(sorted(codes))}), {survived} did without")
    return result("FAIL", name, f"no end after {LIMIT} allocations")


# --- the groups ------------------------------------------------------------
def nl_error(got):
    code = getattr(errno, got.split(":")[-1], None)
    raise OSError(code or errno.ETIMEDOUT, got)


def nl_call(*args, **kw):
    with nl.Closing(nl.Socket(timeout=20)) as s:
        got, messages = s.call(*args, **kw)
    if got != "OK":
        nl_error(got)
    return messages


def done_all_the_same(exc):
    """The call may have been carried out: it was the reply that could not be made."""
    return "recv:" in str(exc)


def add_link(dev, kind):
    try:
        nl_call(nl.NLDEV, nl.NEWLINK,
                nl.attr(nl.DEV_NAME, dev) + nl.attr(nl.LINK_TYPE, kind) + nl.attr(nl.NDEV_NAME, "d0"))
    except OSError as exc:
        if done_all_the_same(exc) and os.path.exists(f"/sys/class/infiniband/{dev}"):
            subprocess.run(["rdma", "link", "delete", dev])
        raise
    return dev


def del_link(dev):
    nl_call(nl.NLDEV, nl.DELLINK, nl.attr(nl.DEV_INDEX, nl.device_index(dev)))


def delete_walk(name, dev, kind):
    """A deletion that was refused has deleted nothing: it is simply repeated."""
    nth = FailNth()
    want = objects()
    for n in range(1, LIMIT):
        add_link(dev, kind)
        index = nl.attr(nl.DEV_INDEX, nl.device_index(dev))
        nth.arm(n)
        try:
            nl_call(nl.NLDEV, nl.DELLINK, index)
        except OSError as exc:
            if not nth.disarm() or exc.errno not in ALLOWED:
                return result("FAIL", name, f"allocation {n}: {exc}")
            # The reply may have been what failed.
            if any(d.rstrip(b"\0").decode() == dev for d in objects()):
                del_link(dev)
            injected = True
        else:
            injected = nth.disarm()
        wrong = settle(want)
        if wrong:
            return result("FAIL", name, f"allocation {n}: {wrong}")
        if not injected:
            return result("PASS", name, f"{n - 1} failed")
    return result("FAIL", name, "no end")


def group_link():
    only_stacks_in(*text_of("ib_core"))
    # A link and its thousands of files take this kernel seconds. One of rxe has sockets, too.
    for dev, kind, allowed in (("fake0", "fake", ALLOWED), ("rxf0", "rxe", ALLOWED | {errno.ENFILE})):
        walk(f"link-add-{kind}", lambda: add_link(dev, kind), del_link, allowed, sample=15)
        delete_walk(f"link-del-{kind}", dev, kind)


def group_netlink():
    only_stacks_in(*text_of("ib_core"))
    index = nl.attr(nl.DEV_INDEX, nl.device_index(DEVICE))
    port = index + nl.attr(nl.PORT_INDEX, 1)
    dump = {"flags": nl.REQUEST | nl.DUMP}
    for name, op, body, kw in (
            ("get", nl.GET, index, {}), ("get-dump", nl.GET, b"", dump),
            ("port", nl.PORT_GET, port, {}), ("port-dump", nl.PORT_GET, index, dump),
            ("sys", nl.SYS_GET, b"", {}), ("res", nl.RES_GET, index, {}), ("res-dump", nl.RES_GET, b"", dump),
            ("res-qp", nl.RES_QP, index, dump), ("res-cm-id", nl.RES_CM_ID, index, dump),
            ("res-cq", nl.RES_CQ, index, dump), ("res-mr", nl.RES_MR, index, dump), ("res-pd", nl.RES_PD, index, dump),
            ("res-ctx", nl.RES_CTX, index, dump), ("res-srq", nl.RES_SRQ, index, dump),
            ("stat", nl.STAT_GET, port, {}), ("stat-status", nl.STAT_STATUS, port, {}),
            ("chardev", nl.CHARDEV, index + nl.attr(nl.CHARDEV_TYPE, "uverbs"), {})):
        walk(f"netlink-{name}", lambda: nl_call(nl.NLDEV, op, body, **kw))
    names = ["rxe0", "rxr0"]

    def back(_=None):
        subprocess.run(["rdma", "dev", "set", names[1], "name", names[0]])

    def rename(new):
        try:
            nl_call(nl.NLDEV, nl.SET, index + nl.attr(nl.DEV_NAME, new))
        except OSError as exc:
            if done_all_the_same(exc) and os.path.exists(f"/sys/class/infiniband/{new}"):
                back()
            raise
        return new

    walk("netlink-rename", lambda: rename(names[1]), back)
    # A rename that was refused half way would leave the other name.
    if not os.path.exists(f"/sys/class/infiniband/{DEVICE}"):
        result("FAIL", "netlink-rename-undone", " ".join(os.listdir("/sys/class/infiniband")))

    def auto(mask):
        nl_call(nl.NLDEV, nl.STAT_SET, port + nl.attr(nl.STAT_MODE, 1) + nl.attr(nl.STAT_RES, 2)
                + nl.attr(nl.STAT_AUTO_MASK, mask))

    try:
        auto(0)
    except OSError as exc:
        # rxe binds no counters, so there is nothing to set.
        result("SKIP", "netlink-stat-auto", str(exc))
    else:
        walk("netlink-stat-auto", lambda: auto(1), lambda _: auto(0))


def group_verbs():
    import pyverbs.enums as e
    from pyverbs.addr import AH, AHAttr, GlobalRoute
    from pyverbs.cq import CQ, CompChannel
    from pyverbs.device import Context
    from pyverbs.mr import MR, MW
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
    from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
    from pyverbs.xrcd import XRCD, XRCDInitAttr

    only_stacks_in(*text_of("ib_core"))
    close = lambda thing: thing.close()
    access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE
    # The library lists the devices first; one whose listing failed is not found: EPERM.
    walk("verbs-context", lambda: Context(name=DEVICE), close, allowed=ALLOWED | {errno.EPERM})
    ctx = Context(name=DEVICE)
    walk("verbs-pd", lambda: PD(ctx), close)
    pd = PD(ctx)
    for size in (4096, 1 << 20):
        walk(f"verbs-mr-{size}", lambda: MR(pd, size, access), close)
    walk("verbs-mr-odp", lambda: MR(pd, 65536, access | e.IBV_ACCESS_ON_DEMAND), close)
    walk("verbs-mw", lambda: MW(pd, e.IBV_MW_TYPE_2), close)
    walk("verbs-channel", lambda: CompChannel(ctx), close)
    walk("verbs-cq", lambda: CQ(ctx, 64), close)
    cq = CQ(ctx, 64)
    walk("verbs-cq-resize", lambda: cq.resize(128))
    init = SrqInitAttr(SrqAttr(max_wr=16))
    walk("verbs-srq", lambda: SRQ(pd, init), close)
    srq = SRQ(pd, init)
    walk("verbs-srq-modify", lambda: srq.modify(SrqAttr(max_wr=32), e.IBV_SRQ_MAX_WR))
    cap = QPCap(max_send_wr=8, max_recv_wr=8)
    make = lambda kind, **kw: QP(pd, QPInitAttr(qp_type=kind, scq=cq, rcq=cq, cap=cap, **kw))
    # rxe makes a socket for each; the kernel says ENFILE when it has no memory for one.
    with_socket = ALLOWED | {errno.ENFILE}
    for name, kind in (("rc", e.IBV_QPT_RC), ("uc", e.IBV_QPT_UC), ("ud", e.IBV_QPT_UD)):
        walk(f"verbs-qp-{name}", lambda: make(kind), close, allowed=with_socket)
    walk("verbs-qp-srq", lambda: make(e.IBV_QPT_RC, srq=srq), close, allowed=with_socket)
    gid = ctx.query_gid(1, 1)
    route = lambda: AHAttr(gr=GlobalRoute(dgid=gid, sgid_index=1), is_global=1, port_num=1)
    walk("verbs-ah", lambda: AH(pd, attr=route()), close)

    def connected():
        qp = make(e.IBV_QPT_RC)
        attr = QPAttr(port_num=1)
        attr.dest_qp_num = qp.qp_num
        attr.path_mtu = e.IBV_MTU_1024
        attr.qp_access_flags = access
        attr.ah_attr = route()
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.max_rd_atomic, attr.max_dest_rd_atomic = 14, 7, 7, 1, 1
        return qp, attr

    def connect():
        qp, attr = connected()
        try:
            qp.to_rts(attr)
        except Exception:
            qp.close()
            raise
        return qp

    walk("verbs-qp-connect", connect, close, allowed=with_socket)
    qp, attr = connected()
    qp.to_rts(attr)
    walk("verbs-qp-query", lambda: qp.query(e.IBV_QP_STATE | e.IBV_QP_AV))
    walk("verbs-query-port", lambda: ctx.query_port(1))
    walk("verbs-query-device", ctx.query_device)
    walk("verbs-query-device-ex", ctx.query_device_ex)
    # libibverbs reads a file of sysfs and says -1 whatever it was.
    walk("verbs-query-gid", lambda: ctx.query_gid(1, 1), allowed={1})
    walk("verbs-query-gid-table", lambda: ctx.query_gid_table(16))
    walk("verbs-query-pkey", lambda: ctx.query_pkey(1, 0))
    path = "/tmp/xrcd"
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    walk("verbs-xrcd", lambda: XRCD(ctx, XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT, fd)),
         close)
    ud = make(e.IBV_QPT_UD)
    join_group()
    for thing in (ud, qp, srq, cq, pd, ctx):
        thing.close()


def join_group():
    from endpoint import group, uverbs_fd

    fd = uverbs_fd()
    gid = socket.inet_pton(socket.AF_INET6, "ff0e::ffff:239.1.1.1")

    def command(number, handles):
        code, handle = group(fd, number, gid, handles)
        if code:
            raise OSError(code, os.strerror(code))
        return handle

    handle = command(30, range(256))
    command(31, [handle])
    walk("verbs-attach-mcast", lambda: command(30, [handle]), lambda _: command(31, [handle]))


def group_sysfs():
    only_stacks_in(*text_of("ib_core"))
    nth = FailNth()
    want = objects()
    total = files = 0
    tree = os.walk(os.path.realpath(f"/sys/class/infiniband/{DEVICE}"))
    for path in sorted(f"{folder}/{f}" for folder, _, names in tree for f in names):
        if os.path.islink(path) or not os.stat(path).st_mode & 0o400:
            continue
        for n in range(1, 100):
            fd = None
            nth.arm(n)
            try:
                fd = os.open(path, os.O_RDONLY)
                os.read(fd, 4096)
            except OSError as exc:
                # Some, such as the types of empty GIDs, cannot be read at all.
                injected = nth.disarm()
                if injected and exc.errno not in ALLOWED:
                    return result("FAIL", "sysfs-read", f"{path}, allocation {n}: {exc}")
            else:
                injected = nth.disarm()
            if fd is not None:
                os.close(fd)
            if not injected:
                break
            total += 1
        else:
            return result("FAIL", "sysfs-read", f"{path}: no end")
        files += 1
    wrong = settle(want)
    return result("FAIL" if wrong else "PASS", "sysfs-read", wrong or f"{total} failed in {files} files")


def group_netns():
    """Namespaces get their netlink socket and compat devices (of a fake device, as above)."""
    only_stacks_in(*text_of("ib_core"))
    libc = ctypes.CDLL(None, use_errno=True)
    for n in range(1, 500):
        pid = os.fork()
        if pid == 0:
            nth = FailNth()
            nth.arm(n)
            rc = libc.unshare(0x40000000)       # CLONE_NEWNET
            code = ctypes.get_errno() if rc else 0
            injected = nth.disarm()
            os._exit((2 if code and not (injected and code in ALLOWED) else 0) | (1 if injected else 0))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status < 0 or status & 2:
            return result("FAIL", "netns-new", f"allocation {n}: status {status}")
        if not status & 1:
            return result("PASS", "netns-new", f"{n - 1} failed")
    return result("FAIL", "netns-new", "no end")


def gids():
    found = set()
    # GIDs take the first free places of the 1,024, and these are read many times.
    for index in range(16):
        try:
            with open(f"/sys/class/infiniband/{DEVICE}/ports/1/gids/{index}") as f:
                found.add(f.read().strip())
        except OSError:
            pass
    return found - {"0000:0000:0000:0000:0000:0000:0000:0000"}


def group_events():
    """Work items: the allocation that exceeds a sum of bytes fails, in any context."""
    only_stacks_in(*text_of("ib_core"))

    def ip(*args):
        subprocess.run(["ip", *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def until(want):
        for _ in range(200):
            if gids() == want:
                return True
            time.sleep(0.05)
        return False

    before = gids()
    slab = "/sys/kernel/debug/failslab"

    def write(name, value):
        with open(f"{slab}/{name}", "w") as f:
            f.write(str(value))

    steps = list(range(0, 4096, 64)) + list(range(4096, 32768, 1024))
    hit = 0
    for space in steps:
        write("space", space)
        write("interval", 1)
        write("times", 1)
        write("probability", 100)
        ip("addr", "add", "10.9.7.7/24", "dev", "d0")
        ip("addr", "add", "fd00:7::7/64", "dev", "d0", "nodad")
        time.sleep(0.1)
        with open(f"{slab}/times") as f:
            fired = int(f.read()) == 0
        write("probability", 0)
        write("times", 0)
        ip("addr", "del", "10.9.7.7/24", "dev", "d0")
        ip("addr", "del", "fd00:7::7/64", "dev", "d0")
        hit += fired
        # A deletion that is seen while its addition was lost has nothing to do.
        if not until(before):
            return result("FAIL", "events-addresses", f"after {space} bytes: GIDs {sorted(gids() ^ before)} differ")
        if not fired:
            break
    ip("addr", "add", "10.9.7.7/24", "dev", "d0")
    ok = until(before | {"0000:0000:0000:0000:0000:ffff:0a09:0707"})
    ip("addr", "del", "10.9.7.7/24", "dev", "d0")
    if not ok or not until(before):
        return result("FAIL", "events-addresses", f"GIDs do not follow any more: {sorted(gids())}")
    return result("PASS" if hit else "FAIL", "events-addresses", f"{hit} failed in work items")


def group_load():
    """Modules whose initialisation fails at each allocation."""
    only_stacks_in(*modules_area())
    release = os.uname().release
    base = f"/lib/modules/{release}"
    libc = ctypes.CDLL(None, use_errno=True)

    def path_of(module):
        done = subprocess.run(["modinfo", "-n", module], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    for module, needs in (("ib_core", ()), ("ib_uverbs", ("ib_core", "ib_uverbs_support"))):
        for m in needs:
            subprocess.run(["modprobe", m], check=True)
        if module == "ib_core":     # what it needs itself
            with open(f"{base}/modules.dep") as f:
                for line in f:
                    if re.match(r"\S*/?ib_core\.ko:", line):
                        for dep in reversed(line.split()[1:]):
                            subprocess.run(["modprobe", os.path.basename(dep)[:-3]], check=True)
        path = path_of(module)
        nth = FailNth()
        refused = survived = 0

        def load():
            fd = os.open(path, os.O_RDONLY)
            try:
                return libc.syscall(313, fd, b"", 0)    # finit_module
            finally:
                os.close(fd)

        total, rc = nth.count(load)
        if rc:
            result("FAIL", f"load-{module}", f"fails without a fault: {os.strerror(ctypes.get_errno())}")
            continue
        subprocess.run(["rmmod", module], check=True)
        print(f"load-{module}: {total} allocations", flush=True)
        # A load and an unload take seconds on this kernel.
        for n in itertools.islice(plan(total, 3 * LOADS, LOADS), LIMIT):
            nth.arm(n)
            rc = load()
            code = ctypes.get_errno()
            injected = nth.disarm()
            if rc and (not injected or code not in ALLOWED):
                result("FAIL", f"load-{module}", f"allocation {n}: {errno.errorcode.get(code, code)}")
                break
            refused += rc != 0
            survived += rc == 0 and injected
            if rc == 0:
                gone = subprocess.run(["rmmod", module], capture_output=True, text=True)
                if gone.returncode:
                    result("FAIL", f"load-{module}", f"allocation {n}: {gone.stderr.strip()}")
                    break
            if not injected:
                result("PASS", f"load-{module}",
                       f"{refused + survived} of {total} failed, {refused} refused, {survived} did without")
                break
        else:
            result("FAIL", f"load-{module}", "no end")


if __name__ == "__main__":
    for group in sys.argv[1:]:
        announce(group)
        globals()[f"group_{group}"]()
    only_stacks_in(0, 0xFFFFFFFFFFFFFFFF)
