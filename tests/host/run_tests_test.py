# SPDX-License-Identifier: GPL-2.0
"""The judgement and the parsers of scripts/run-tests."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, f"{TOP}/scripts")
from lib import script

rt = script("run-tests")


class Parse(unittest.TestCase):
    def test_results(self):
        table = rt.parse_results("noise\nPASS a:b\nFAIL a:c why it failed\nSKIP a:d no x\nPASS no-colon\n")
        self.assertEqual(table, {"a:b": ("PASS", ""), "a:c": ("FAIL", "why it failed"), "a:d": ("SKIP", "no x")})

    def test_worst_of_equal_names(self):
        self.assertEqual(rt.parse_results("FAIL a:b x\nPASS a:b\n")["a:b"][0], "FAIL")

    def test_known(self):
        self.assertEqual(rt.parse_known("# c\n\na:b because of x # y\n"), {"a:b": "because of x"})


class Kunit(unittest.TestCase):
    text = "KTAP version 1\n1..1\n    # Subtest: s\n    1..3\n    ok 1 a\n    not ok 2 b\n    ok 3 c # SKIP no x\nnot ok 1 s\n"

    def test_cases(self):
        rows = rt.kunit_results({"s": self.text}, "FAIL 1 tests failed\n", 1)
        self.assertEqual(rows, [("PASS", "kunit:s:a", ""), ("FAIL", "kunit:s:b", ""), ("SKIP", "kunit:s:c", "no x"),
                                ("FAIL", "kunit:run", "1 tests failed")])

    def test_controls(self):
        rows = rt.kunit_results({"s": ""}, "control x: detected\ncontrol y: NOT DETECTED\n", 0)
        self.assertEqual([r[:2] for r in rows], [("PASS", "kunit:control:x"), ("FAIL", "kunit:control:y"),
                                                 ("PASS", "kunit:run")])

    def test_no_results(self):
        self.assertEqual(rt.kunit_results({}, "", 0)[0][0], "FAIL")


class Cores(unittest.TestCase):
    def test_rust_only_unless_chosen(self):
        self.assertEqual(rt.cores_wanted("rxe-link", "both", False), ["rust"])
        self.assertEqual(sorted(rt.cores_wanted("rxe-link", "both", True)), ["c", "rust"])
        self.assertEqual(rt.cores_wanted("rxe-link", "c", False), ["c"])

    def test_others(self):
        self.assertEqual(sorted(rt.cores_wanted("smoke", "both", False)), ["c", "rust"])
        self.assertEqual(rt.cores_wanted("classic", "c", True), [])


class Wanted(unittest.TestCase):
    def test_kunit_beside_named_suites(self):
        self.assertEqual(rt.suites_wanted(["smoke"], False, True, "stock"), ["smoke", "kunit"])
        self.assertEqual(rt.suites_wanted(["smoke"], False, False, "stock"), ["smoke"])
        self.assertEqual(rt.suites_wanted(["kunit"], False, True, "stock"), ["kunit"])

    def test_sets(self):
        short = rt.suites_wanted([], False, False, "stock")
        self.assertIn("smoke", short)
        self.assertNotIn("kunit", short)
        self.assertNotIn("pyverbs", short)
        self.assertEqual(rt.suites_wanted([], False, True, "stock"), [*short, "kunit"])
        everything = rt.suites_wanted([], True, False, "stock")
        self.assertIn("pyverbs", everything)
        self.assertEqual(everything[-1], "kunit")
        self.assertNotIn("faults", everything)

    def test_suites_for_the_debug_kernel(self):
        wanted = ["build", "host", "smoke", "install", "kunit"]
        self.assertEqual(rt.debug_wanted(wanted), [("smoke", "rust")])
        self.assertEqual(rt.debug_wanted(wanted, "both"), [("smoke", "rust")])
        self.assertEqual(rt.debug_wanted(wanted, "c"), [("smoke", "c")])


class Rows(unittest.TestCase):
    def test_each_driver_has_its_own(self):
        self.assertEqual(rt.summary_key("smoke", "c"), "smoke")
        self.assertEqual(rt.summary_key("smoke", "rust"), "smoke, Rust rxe")

    def test_both_in_one_run(self):
        self.assertEqual(rt.summary_key("smoke", "both"), "smoke")
        self.assertEqual(rt.summary_key("smoke+rxe", "both"), "smoke, Rust rxe")
        self.assertEqual(rt.rxes_wanted("smoke", "both"), ["c", "rust"])
        self.assertEqual(rt.rxes_wanted("rxe-link", "both"), ["c"])
        self.assertEqual(rt.rxes_wanted("smoke", "rust"), ["rust"])
        self.assertEqual(rt.rxes_wanted("smoke", None), ["c"])
        self.assertEqual(rt.rxes_wanted("nvme", None), ["c", "rust"])
        self.assertEqual(rt.rxes_wanted("nvme", "c"), ["c"])

    def test_the_debug_kernel_has_its_own(self):
        self.assertEqual(rt.label_of("smoke", "debug", "c", None), "smoke+debug")
        self.assertEqual(rt.label_of("smoke", "debug", "rust", "both"), "smoke+rxe+debug")
        self.assertEqual(rt.label_of("smoke", "stock", "rust", "rust"), "smoke")
        self.assertEqual(rt.summary_key("smoke+debug", None), "smoke, debug kernel")
        self.assertEqual(rt.summary_key("smoke+rxe+debug", "both"), "smoke, Rust rxe, debug kernel")
        self.assertEqual(rt.summary_key("smoke+debug", "rust"), "smoke, Rust rxe, debug kernel")
        self.assertEqual(rt.summary_key("rxe-link+debug", "rust"), "rxe-link, debug kernel")

    def test_what_does_not_depend_on_it(self):
        self.assertEqual(rt.summary_key("host", "rust"), "host")
        self.assertEqual(rt.summary_key("rxe-link", "rust"), "rxe-link")


class Judge(unittest.TestCase):
    known = {"k": "reason"}

    def test_pass(self):
        self.assertEqual(rt.judge("a", ("PASS", ""), ("PASS", ""), {})[0], "PASS")

    def test_better_than_stock(self):
        self.assertEqual(rt.judge("a", ("PASS", ""), ("FAIL", "x"), {})[0], "PASS")

    def test_regression(self):
        self.assertEqual(rt.judge("a", ("FAIL", "x"), ("PASS", ""), {})[0], "FAIL")

    def test_both_fail_unknown(self):
        self.assertEqual(rt.judge("a", ("FAIL", "x"), ("FAIL", "x"), self.known)[0], "FAIL")

    def test_both_fail_known(self):
        self.assertEqual(rt.judge("k", ("FAIL", "x"), ("FAIL", "x"), self.known)[0], "SKIP")

    def test_known_but_stock_passes(self):
        self.assertEqual(rt.judge("k", ("FAIL", "x"), ("PASS", ""), self.known)[0], "FAIL")

    def test_skip_hides_nothing(self):
        self.assertEqual(rt.judge("a", ("SKIP", "x"), ("PASS", ""), {})[0], "FAIL")

    def test_all(self):
        tables = {"rust": {"s:a": ("PASS", "")}, "c": {"s:a": ("PASS", ""), "s:b": ("PASS", "")}}
        rows = list(rt.judge_all("s", tables, {}, "s+rxe"))
        self.assertEqual([(r[0], r[2]) for r in rows], [("PASS", "s+rxe:a"), ("FAIL", "s+rxe:b")])

    def test_lost_with_the_other_driver(self):
        stock = {"rust": {"s:a": ("PASS", ""), "s:b": ("PASS", ""), "s:c": ("PASS", ""), "s:d": ("FAIL", "x")}}
        mine = {"rust": {"s:a": ("PASS", ""), "s:b": ("SKIP", "y"), "s:c": ("FAIL", "z"), "s:d": ("PASS", "")}}
        rows = list(rt.judge_drivers("s", mine, stock, {}, "s+rxe"))
        self.assertEqual([(r[0], r[2]) for r in rows], [("FAIL", "s+rxe:b")])
        rows = list(rt.judge_drivers("s", {"rust": {}}, stock, {}, "s+rxe"))
        self.assertEqual([r[2] for r in rows], ["s+rxe:a", "s+rxe:b", "s+rxe:c", "s+rxe:d"])

    def test_lost(self):
        self.assertEqual(rt.judge("a", None, ("PASS", ""), {})[0], "FAIL")
        self.assertEqual(rt.judge("a", None, None, {})[0], "FAIL")
