#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""fields.py CASE: one case of a field report; says what is wrong and fails.

Each case runs on rxe0 (netdev d0, 10.9.0.1) unless it makes its own.
"""
import ctypes
import errno
import gc
import os
import re
import signal
import subprocess
import sys
import time

gc.disable()    # pyverbs 56.1 under Python 3.13: a cyclic pass can crash
import nl

DEV = "rxe0"
LS_DGID = 4


def sh(cmd, timeout=60, check=True):
    done = subprocess.run(["bash", "-c", cmd], capture_output=True, text=True, timeout=timeout * nl.SLOWER)
    if check and done.returncode:
        raise SystemExit(f"{cmd}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def expect(what, ok):
    print(("ok " if ok else "WRONG ") + what)
    if not ok:
        expect.failed = True


expect.failed = False


def dmesg():
    return sh("dmesg")


def link_add():
    sh("ip link show d0 > /dev/null 2>&1 || { ip link add d0 type dummy && ip addr add 10.9.0.1/24 dev d0 && ip link set d0 up; }")
    sh(f"rdma link add {DEV} type rxe netdev d0")
    sh(f"for i in $(seq 100); do grep -q ffff:0a09 /sys/class/infiniband/{DEV}/ports/1/gids/1 && exit 0; sleep 0.1; done; exit 1")


def objects():
    from pyverbs.cq import CQ
    from pyverbs.device import Context
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPCap, QPInitAttr
    import pyverbs.enums as e
    ctx = Context(name=DEV)
    pd = PD(ctx)
    cq = CQ(ctx, 16)
    mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=8, max_recv_wr=8)))
    return ctx, pd, cq, mr, qp


def error_of(fn, *args):
    from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
    try:
        fn(*args)
    except PyverbsRDMAError as err:
        return err.error_code
    except PyverbsError as err:
        return str(err)
    return 0


def b01():
    """Deletion does not wait for a process that holds a verbs file open."""
    for how, cmd in (("rdma link del", f"rdma link del {DEV}"), ("ip link del", "ip link del d0")):
        if not os.path.exists(f"/sys/class/infiniband/{DEV}"):
            link_add()
        ctx, _, cq, mr, _ = held = objects()
        t0 = time.time()
        sh(f"timeout 30 {cmd}")
        gone = f"for i in $(seq 50); do [ -e /sys/class/infiniband/{DEV} ] || exit 0; sleep 0.1; done; exit 1"
        sh(gone)
        took = time.time() - t0
        expect(f"{how}: {took:.1f} s with the file open", took < 5)
        expect(f"{how}: query gives EIO", error_of(ctx.query_port, 1) == errno.EIO)
        n, _ = cq.poll(1)
        expect(f"{how}: polling the mapped CQ still works", n == 0)
        # Objects are gone with the device: destroying them is no error, or EIO.
        expect(f"{how}: dereg ends", error_of(mr.close) in (0, errno.EIO))
        held = None
        ctx.close()
    sh("modprobe -r rdma_rxe")
    sh("modprobe rdma_rxe")
    link_add()


def b03():
    """Only whole old or new names are seen while a device is renamed."""
    procs = [subprocess.Popen(["bash", "-c", c], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for c in (
        f"end=$((SECONDS + 20)); while [ $SECONDS -lt $end ]; do rdma dev set {DEV} name rxf0; rdma dev set rxf0 name {DEV}; done",
        "end=$((SECONDS + 20)); while [ $SECONDS -lt $end ]; do for f in /sys/class/infiniband/*/uevent; do echo add > $f; done; done",
        "end=$((SECONDS + 20)); while [ $SECONDS -lt $end ]; do rdma dev show; rdma -d res show; done",
        "ip link add d2 type dummy; ip link set d2 up; end=$((SECONDS + 20)); while [ $SECONDS -lt $end ]; do rdma link add rxg0 type rxe netdev d2; rdma link del rxg0; done; ip link del d2",
        "exec timeout 21 stdbuf -oL udevadm monitor -k -p",
        "exec timeout 21 stdbuf -oL rdma monitor")]
    out = [p.communicate()[0] for p in procs]
    names = set(re.findall(r"^\d+: ([^:]+):", out[2], re.M)) | set(re.findall(r"^NAME=(rx.*)$", out[4], re.M))
    names |= set(re.findall(r"\bdev \d+ (\S+)", out[5]))
    expect(f"names seen: {sorted(names)}", {DEV, "rxf0"} <= names <= {DEV, "rxf0", "rxg0"})
    expect("the device has its name again", f": {DEV}: " in sh("rdma dev"))


def b07():
    """A netdev goes while its device is being registered: no reference stays."""
    slowest = 0
    uppers = ("", "ip link add up0 link e0 type ipvlan", "ip link add up0 link e0 type vlan id 5",
              "ip link add up0 type bond; ip link set e0 down; ip link set e0 master up0; ip link set e0 up", "ip link add up0 link e0 type macvlan")
    for n in range(50):
        upper = uppers[n % len(uppers)]
        sh(f"ip link add e0 type dummy; ip addr add 10.7.0.1/24 dev e0; ip link set e0 up; {upper + '; ip link set up0 up; ip addr add 10.7.1.1/24 dev up0' if upper else ':'}")
        p = subprocess.Popen(["rdma", "link", "add", "rxh0", "type", "rxe", "netdev", "e0"], stderr=subprocess.DEVNULL)
        if n % 3:
            time.sleep(0.005 * (n % 7))
        t0 = time.time()
        sh("ip link set e0 down; ip link del e0", timeout=60)
        slowest = max(slowest, time.time() - t0)
        p.wait()
        sh("ip link del up0", check=False)
        # Where the link came too late for the netdev there is none; else it goes with it.
        sh("for i in $(seq 100); do [ -e /sys/class/infiniband/rxh0 ] || exit 0; sleep 0.1; done; exit 1")
    expect(f"the slowest ip link del took {slowest:.1f} s", slowest < 10)


def b12():
    """LS answers without a usable GID attribute are refused, silently."""
    sh("dmesg -C")
    with nl.Closing(nl.Socket(timeout=1)) as s:
        for body in [b""] + [nl.attr(LS_DGID, b"\xa5" * n) for n in (0, 4, 15, 17)]:
            for op in (0, 1, 2):
                s.call(nl.LS, op, body, flags=0, seq=77)
                s.call(nl.LS, op, body, flags=nl.REQUEST, seq=77)
    log = dmesg()
    expect("no line with a made-up GID", "DGID" not in log and "a5a5" not in log)
    with nl.Closing(nl.Socket(timeout=1)) as s:
        s.call(nl.LS, 2, nl.attr(LS_DGID, b"\xfe\x80" + b"\0" * 13 + b"\7"), flags=0, seq=1234567)
    log = dmesg()
    expect("an answer nobody waits for is one line", len(re.findall("waiting for DGID.*fe80:.*0007", log)) == 1)
    pid = os.fork()
    if pid == 0:
        nl.drop_privileges()
        results = []
        with nl.Closing(nl.Socket(timeout=2)) as s:
            for op in (0, 1, 2):
                results.append(s.call(nl.LS, op, nl.attr(LS_DGID, b"\0" * 16), flags=nl.REQUEST | nl.ACK)[0])
        print(results)
        sys.stdout.flush()
        os._exit(0 if all(r == "EPERM" for r in results) else 1)
    expect("EPERM without CAP_NET_ADMIN", os.waitpid(pid, 0)[1] == 0)


def b13():
    """Malformed counter containers and unknown attributes."""
    index = nl.attr(nl.DEV_INDEX, nl.device_index(DEV))
    port = nl.attr(nl.PORT_INDEX, 1)
    with nl.Closing(nl.Socket()) as s:
        for n in (0, 1, 3, 5):
            body = index + port + nl.attr(nl.HWCOUNTERS | 0x8000, nl.attr(nl.HWC_INDEX, b"\xff" * n))
            expect(f"counter child of {n} bytes: EINVAL", s.call(nl.NLDEV, nl.STAT_SET, body)[0] == "EINVAL")
        for value in (0xFFFFFFFF, 0x80000000, 1000):
            body = index + port + nl.attr(nl.HWCOUNTERS | 0x8000, nl.attr(nl.HWC_INDEX, value))
            expect(f"counter index {value:#x} refused", s.call(nl.NLDEV, nl.STAT_SET, body)[0] in ("EINVAL", "ENOTSUP"))
        more = nl.attr(200, 1)
        expect("GET takes an unknown attribute", s.call(nl.NLDEV, nl.GET, index + more)[0] == "OK")
        expect("a dump takes an unknown attribute", s.call(nl.NLDEV, nl.RES_QP, index + more, flags=nl.REQUEST | nl.DUMP)[0] == "OK")
        expect("STAT_GET takes an unknown attribute", s.call(nl.NLDEV, nl.STAT_GET, index + port + more)[0] == "OK")
        for op, body in ((nl.SET, nl.attr(nl.DEV_DIM, b"\1")), (nl.SYS_SET, nl.attr(nl.QKEY_MODE, b"\0")),
                         (nl.STAT_SET, port + nl.attr(nl.STAT_RES, 19) + nl.attr(nl.STAT_MODE, 1) + nl.attr(nl.STAT_AUTO_MASK, 0))):
            got = s.call(nl.NLDEV, op, index + body + more)[0]
            expect(f"SET {op} refuses an unknown attribute ({got})", got == "EINVAL")


def b15():
    """Dumps while objects are destroyed."""
    end = time.time() + 30
    shells = [subprocess.Popen(["bash", "-c", f"while :; do rdma -d res show {o} > /dev/null; done"]) for o in ("qp", "cq", "mr", "pd")]
    pids = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            slowest = 0
            while time.time() < end:
                ctx, pd, cq, mr, qp = objects()
                t0 = time.time()
                for o in (qp, mr, cq, pd):
                    o.close()
                    slowest = max(slowest, time.time() - t0)
                    t0 = time.time()
                ctx.close()
            print(f"slowest destroy {slowest:.2f} s")
            sys.stdout.flush()
            # A loaded emulated machine: five times the limit of the report.
            os._exit(0 if slowest < 5 else 1)
        pids.append(pid)
    status = [os.waitpid(p, 0)[1] for p in pids]
    for p in shells:
        p.kill()
        p.wait()
    expect("no destroy was stuck", not any(status))
    expect("nothing is left", "comm python3" not in sh("rdma res show qp; rdma res show mr"))


def b17():
    """Every file of a compat device can be read; device-level hw_counters only at home."""
    sh("ip netns add t")
    sh("ip netns exec t sh -c 'find /sys/class/infiniband/ -follow -maxdepth 6 -type f -readable -exec cat {} + > /dev/null 2>&1; true'", timeout=200)
    inside = sh("ip netns exec t sh -c 'ls /sys/class/infiniband; find -L /sys/class/infiniband/ -maxdepth 4 -name hw_counters'", check=False)
    expect("the device is there", DEV in inside.split())
    expect(f"no hw_counters inside ({inside.split()})", "hw_counters" not in inside)
    expect("hw_counters outside", "hw_counters" in sh("find -L /sys/class/infiniband/ -maxdepth 4 -name hw_counters", check=False))
    sh("ip netns del t")


def b18():
    """State and rate of virtual netdevs; one event for each change."""
    def port(dev):
        d = f"/sys/class/infiniband/{dev}/ports/1/"
        return tuple(open(d + f).read().strip() for f in ("state", "phys_state", "rate"))

    sh("ip link add w0 type veth peer name w1; ip link set w0 up; ip link set w1 up")
    sh("ip link add m0 type dummy; ip link set m0 up; ip link add i0 link m0 type ipvlan mode l2; ip link set i0 up")
    sh("rdma link add rxv type rxe netdev w0; rdma link add rxi type rxe netdev i0")
    time.sleep(1)
    for dev, ndev in ((DEV, "d0"), ("rxv", "w0"), ("rxi", "i0")):
        up = port(dev)
        print(dev, up)
        expect(f"{ndev} up: ACTIVE", up[0] == "4: ACTIVE" and up[1] == "5: LinkUp")
        watch = subprocess.Popen(["timeout", "60", "stdbuf", "-oL", "ibv_asyncwatch", "-d", dev], stdout=subprocess.PIPE, text=True)
        time.sleep(1.5)
        sh(f"ip link set {ndev} down")
        time.sleep(1)
        expect(f"{ndev} down: DOWN", port(dev)[0] == "1: DOWN" and port(dev)[1] == "3: Disabled")
        sh(f"ip link set {ndev} up")
        time.sleep(1)
        expect(f"{ndev} up again: as before", port(dev) == up)
        watch.terminate()
        events = watch.communicate()[0]
        expect(f"{ndev}: one event each way", len(re.findall(r"port error|PORT_ERR|port err", events, re.I)) == 1
               and len(re.findall(r"port active|PORT_ACTIVE", events, re.I)) == 1)
        if expect.failed:
            print(events)
    end = time.time() + 10
    reader = subprocess.Popen(["bash", "-c", "while :; do cat /sys/class/infiniband/*/ports/1/rate > /dev/null 2>&1; done"])
    while time.time() < end:
        sh("ip link add m9 type dummy; ip link set m9 up; ip link add i9 link m9 type ipvlan mode l2; ip link set i9 up; rdma link add rxj type rxe netdev i9; ip link del m9", check=False)
    reader.kill()
    reader.wait()
    sh("rdma link del rxv; rdma link del rxi; ip link del w0; ip link del m0")


def b20():
    """Device attributes, and the state a QP says it is in."""
    import pyverbs.enums as e
    from pyverbs.addr import AHAttr, GlobalRoute
    from pyverbs.qp import QPAttr
    ctx, _, _, _, qp = held = objects()
    attr = ctx.query_device()
    guids = [str(attr.node_guid), str(attr.sys_image_guid)]
    expect(f"GUIDs {guids}", all(re.search("[1-9a-f]", g) for g in guids))
    expect("max_msg_sz is 2^31", ctx.query_port(1).max_msg_sz == 1 << 31)
    sh("ip link add m0 type dummy; ip link set m0 up; rdma link add rxm type rxe netdev m0")
    other = open("/sys/class/infiniband/rxm/sys_image_guid").read()
    expect("another device has another sys_image_guid", other != open(f"/sys/class/infiniband/{DEV}/sys_image_guid").read())
    sh("rdma link del rxm; ip link del m0")
    gid = ctx.query_gid(1, 1)
    a = QPAttr(port_num=1)
    a.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE

    def states():
        got, init = qp.query(e.IBV_QP_STATE | e.IBV_QP_CUR_STATE)
        return got.qp_state, got.cur_qp_state

    expect("RESET", states() == (e.IBV_QPS_RESET, e.IBV_QPS_RESET))
    qp.to_init(a)
    expect("INIT", states() == (e.IBV_QPS_INIT, e.IBV_QPS_INIT))
    a.ah_attr = AHAttr(gr=GlobalRoute(dgid=gid, sgid_index=1), is_global=1, port_num=1)
    a.dest_qp_num, a.path_mtu, a.max_dest_rd_atomic, a.max_rd_atomic, a.min_rnr_timer = qp.qp_num, 3, 1, 1, 12
    a.timeout, a.retry_cnt, a.rnr_retry = 14, 7, 7
    qp.to_rtr(a)
    expect("RTR", states() == (e.IBV_QPS_RTR, e.IBV_QPS_RTR))
    qp.to_rts(a)
    expect("RTS", states() == (e.IBV_QPS_RTS, e.IBV_QPS_RTS))
    b = QPAttr(qp_state=e.IBV_QPS_SQD)
    qp.modify(b, e.IBV_QP_STATE)
    expect("SQD", states() == (e.IBV_QPS_SQD, e.IBV_QPS_SQD))
    b = QPAttr(qp_state=e.IBV_QPS_ERR)
    qp.modify(b, e.IBV_QP_STATE)
    expect("ERR", states() == (e.IBV_QPS_ERR, e.IBV_QPS_ERR))
    del held


def b29():
    """MAD tracepoints: right events, no complaint of the ring buffer."""
    t = "/sys/kernel/tracing"
    sh("for m in rdma_ucm ib_umad; do modprobe $m; done")
    sh(f"echo 0 > {t}/tracing_on; : > {t}/trace; for e in ib_mad rdma_core; do echo 1 > {t}/events/$e/enable; done; echo 1 > {t}/tracing_on")
    for _ in range(5):
        sh("rping -s -a 10.9.0.1 -C 2 > /dev/null 2>&1 & p=$!; sleep 0.5; timeout 20 rping -c -a 10.9.0.1 -C 2 && wait $p", timeout=60)
    trace = open(f"{t}/trace").read()
    sh(f"for e in ib_mad rdma_core; do echo 0 > {t}/events/$e/enable; done; : > {t}/trace")
    seen = {e: len(re.findall(rf": {e}: ", trace)) for e in ("ib_mad_ib_send_mad", "ib_mad_send_done_handler", "ib_mad_recv_done_handler")}
    if not any(seen.values()):
        print(trace[:3000])
    expect(f"sent, done, received: {seen}", all(n >= 15 for n in seen.values()))
    # All of them on QP1, whose number the events carry as 1 where they have it.
    qpns = set(re.findall(r"(?:qpn|qp_num)[= ](?:0x)?(\d+)", trace))
    expect(f"QP numbers in the trace: {sorted(qpns)}", not qpns or "1" in qpns)


def b31():
    """Charges of the rdma cgroup come back, however the objects go."""
    g = "/sys/fs/cgroup/b31"
    sh(f"echo +rdma > /sys/fs/cgroup/cgroup.subtree_control; mkdir -p {g}; echo '{DEV} hca_handle=4 hca_object=20' > {g}/rdma.max")

    def current():
        for line in open(f"{g}/rdma.current"):
            if line.startswith(DEV + " "):
                return line.split()[1:]
        return []

    def zero():
        for _ in range(50):
            if current() in ([], ["hca_handle=0", "hca_object=0"]):
                return True
            time.sleep(0.1)
        print(current())
        return False

    def child(fn):
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            open(f"{g}/cgroup.procs", "w").write(str(os.getpid()))
            try:
                os.write(w, fn().encode())
            except BaseException as err:
                os.write(w, f"raised {err!r}".encode())
            signal.pause()
        os.close(w)
        said = os.read(r, 4096).decode()
        os.close(r)
        return pid, said

    def reap(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def to_the_limit():
        from pyverbs.device import Context
        from pyverbs.pd import PD
        to_the_limit.ctx = Context(name=DEV)
        to_the_limit.pds = []
        n = 0
        while n < 100:
            code = error_of(lambda: to_the_limit.pds.append(PD(to_the_limit.ctx)))
            if code:
                return f"{len(to_the_limit.pds)} {code}"
            n += 1
        return "no limit"

    pid, said = child(to_the_limit)
    n, code = said.split()
    expect(f"the limit holds: {said}", code == str(errno.EAGAIN) and 17 <= int(n) <= 20)
    expect(f"charged: {current()}", current()[1:] == ["hca_object=20"])
    reap(pid)
    expect("uncharged after kill -9", zero())

    def busy():
        busy.held = objects()
        return "ok"

    pid, said = child(busy)
    expect(f"objects: {said}", said == "ok")
    expect(f"charged: {current()}", current() not in ([], ["hca_handle=0", "hca_object=0"]))
    sh(f"timeout 20 rdma link del {DEV}")
    reap(pid)
    expect("no line after the device has gone", current() == [])
    link_add()
    sh(f"echo '{DEV} hca_handle=4 hca_object=20' > {g}/rdma.max")

    def failing():
        from pyverbs.cq import CQ
        from pyverbs.device import Context
        failing.ctx = Context(name=DEV)
        bad = sum(bool(error_of(lambda: CQ(failing.ctx, 1 << 20))) for _ in range(300))
        return f"{bad} failed"

    pid, said = child(failing)
    expect(said, said == "300 failed")
    # The context and the file of its async events.
    expect(f"failed creations are not charged: {current()}", int(current()[1].split("=")[1]) <= 2)
    reap(pid)
    expect("uncharged at the end", zero())
    sh(f"rmdir {g}")


globals()[sys.argv[1]]()
sys.exit(1 if expect.failed else 0)
