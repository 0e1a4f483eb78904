# SPDX-License-Identifier: GPL-2.0
"""scripts/kunit: joining results, counting cases, judging the controls."""
import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from run_tests_test import script
import ktapcat

ONE = """KTAP version 1
1..1
    KTAP version 1
    # Subtest: one
    1..3
    ok 1 a
    not ok 2 b
    ok 3 c # SKIP not here
not ok 1 one
"""
TWO = """KTAP version 1
1..1
    KTAP version 1
    # Subtest: two
    1..1
    ok 1 a
ok 1 two
"""


class Join(unittest.TestCase):
    def test_numbers_follow_on(self):
        lines = list(ktapcat.join([ONE, TWO]))
        self.assertEqual(lines[:2], ["KTAP version 1", "1..2"])
        self.assertIn("not ok 1 one", lines)
        self.assertIn("ok 2 two", lines)

    def test_inner_plans_stay(self):
        self.assertIn("    1..3", ktapcat.join([ONE]))


class Count(unittest.TestCase):
    def test_cases(self):
        self.assertEqual(script("kunit").count([ONE, TWO]), {"pass": 2, "fail": 1, "skip": 1})


class Slowest(unittest.TestCase):
    def test_time_since_the_line_before(self):
        log = ("[    1.000000]     # Subtest: one\n[    1.500000]     ok 1 a\n[    1.600000]     # b: slow\n"
               "[    4.000000]     not ok 2 b\n[    4.000000] not ok 1 one\n[    9.000000]     # Subtest: two\n"
               "[   10.000000]     ok 1 c # SKIP no x\n[   10.000000] ok 2 two\n")
        self.assertEqual(script("kunit").slowest(log, 2), [(2.5, "one.b"), (1.0, "two.c")])


class Dealing(unittest.TestCase):
    TABLE = {"ib_core": ["rust_a", "rust_b"], "rdma_rxe": ["rust_rxe_x"], "one": ["one"], "fake": []}

    def setUp(self):
        self.kunit = script("kunit")

    def test_globs_match_the_suites(self):
        self.assertEqual(self.kunit.wanted(self.TABLE, None), {
            "ib_core": (["rust_a", "rust_b"], "rust_*"), "rdma_rxe": (["rust_rxe_x"], "rust_rxe_x*"),
            "one": (["one"], "one*")})

    def test_only_modules_that_have_the_suite(self):
        self.assertEqual(self.kunit.wanted(self.TABLE, "rust_b.case"), {"ib_core": (["rust_b"], "rust_b.case")})
        self.assertEqual(self.kunit.wanted(self.TABLE, "nothing"), {})

    def test_every_module_goes_to_one_vm(self):
        names = ["ib_core", "rdma_rxe", "kunit_verbs", "core_test", "x", "y"]
        shares = self.kunit.deal(names, 2, True)
        self.assertEqual(sorted(sum(shares, [])), sorted(names))
        for share in shares:
            self.assertEqual(share, [n for n in names if n in share])

    def test_the_load_is_level(self):
        loads = [sum(self.kunit.WEIGHTS[m] for m in share) for share in self.kunit.deal(self.kunit.WEIGHTS, 2, False)]
        self.assertLess(max(loads) - min(loads), min(self.kunit.WEIGHTS.values()) + 1)

    def test_one_vm(self):
        self.assertEqual(self.kunit.deal(["a", "b"], 1, True), [["a", "b"]])

    def test_a_suite_without_results_is_missed(self):
        with tempfile.TemporaryDirectory() as folder:
            self.kunit.OUT = folder
            os.makedirs(f"{folder}/vm1/results/a")
            os.makedirs(f"{folder}/vm1/results/control_c")
            for name in ("a/one", "control_c/control_c"):
                with open(f"{folder}/vm1/results/{name}", "w") as f:
                    f.write(ONE)
            self.assertEqual(list(self.kunit.results()), ["one"])
            self.kunit.parse = lambda texts: (0, "")
            with contextlib.redirect_stdout(io.StringIO()):
                wrong = self.kunit.judge_suites({"a": (["one", "two"], "*")}, False, {})
            self.assertIn("no results of two", wrong)


class Controls(unittest.TestCase):
    def setUp(self):
        self.kunit = script("kunit")

    def log(self, name, line):
        return f"[ 1.0] control: begin {name}\n[ 1.0] {line}\n[ 1.0] control: end {name}\n"

    def test_report_between_the_marks(self):
        log = self.log("rust_use_after_free", "BUG: KASAN: slab-use-after-free in x+0x1/0x2")
        self.assertTrue(self.kunit.detected(log)["rust_use_after_free"])

    def test_report_of_another_control(self):
        log = self.log("rust_use_after_free", "nothing")
        log += self.log("c_use_after_free", "BUG: KASAN: slab-use-after-free in x+0x1/0x2")
        table = self.kunit.detected(log)
        self.assertFalse(table["rust_use_after_free"])
        self.assertTrue(table["c_use_after_free"])

    def test_leak_by_module(self):
        log = "[ 9.0] control: kmemleak:     leak+0x3c/0x60 [control_c]\n"
        table = self.kunit.detected(log)
        self.assertTrue(table["c_leak"])
        self.assertFalse(table["rust_leak"])

    def test_nothing_is_detected_in_an_empty_log(self):
        self.assertFalse(any(self.kunit.detected("").values()))


if __name__ == "__main__":
    unittest.main()
