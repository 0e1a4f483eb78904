#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs rdma-core's tests/run_tests.py unchanged, but prints one result line for
each test and bounds its time.

Cyclic garbage collection stays off: pyverbs 56.1 under Python 3.13 may
otherwise finalise a QP or CQ after its context and crash in libibverbs.
"""
import gc
import os
import runpy
import signal
import sys
import unittest

gc.disable()
LIMIT = int(os.environ.get("PYV_LIMIT", "120"))
current = os.environ["PYV_CURRENT"]
results = open(os.environ["PYV_RESULTS"], "a", buffering=1)


def on_alarm(*_):
    raise TimeoutError(f"test exceeded {LIMIT} s")


signal.signal(signal.SIGALRM, on_alarm)


class Result(unittest.TextTestResult):
    def startTest(self, test):
        self.verdict, self.why = "PASS", ""
        signal.alarm(LIMIT)
        with open(current, "w") as f:
            f.write(test.id())
        with open("/dev/kmsg", "w") as k:
            k.write(f"<6>test: pyverbs {test.id()}\n")
        super().startTest(test)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)
        self.put(self.verdict, test.id(), self.why)
        with open(current, "w"):
            pass

    @staticmethod
    def put(verdict, name, why):
        results.write(f"{verdict} pyverbs:{name} {' '.join(str(why).split())[:200]}\n")

    def note(self, verdict, why):
        if self.verdict != "FAIL":
            self.verdict, self.why = verdict, why

    def addSkip(self, test, reason):
        self.note("SKIP", reason)
        super().addSkip(test, reason)

    def addFailure(self, test, err):
        self.note("FAIL", err[1])
        super().addFailure(test, err)

    def addError(self, test, err):
        if hasattr(test, "_testMethodName"):
            self.note("FAIL", err[1])
        else:       # setUpClass and the like
            self.put("FAIL", test.id().replace(" ", "_"), err[1])
        super().addError(test, err)

    def addSubTest(self, test, subtest, err):
        if err:
            self.note("FAIL", err[1])
        super().addSubTest(test, subtest, err)


unittest.TextTestRunner.resultclass = Result
tests = os.environ["PYV_DIR"]
sys.path[:0] = [tests, os.path.dirname(tests)]
sys.argv = [f"{tests}/run_tests.py", *sys.argv[1:]]
runpy.run_path(sys.argv[0], run_name="__main__")
