# SPDX-License-Identifier: GPL-2.0
"""scripts/coverage: files of counts, who calls what, the figure in the README."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from run_tests_test import script


class FakeElf:
    """A module with two functions and a variable."""
    names = ["", ".text", ".data", ".text.unlikely"]
    symbols = [("ib_a", 1, 1, 0), ("ib_b", 1, 3, 0), ("ib_data", 1, 2, 0), ("ib_local", 0, 1, 8), ("printk", 1, 0, 0),
               ("ib_abs", 1, 0xfff1, 0)]

    def exports(self):
        return {n: (True, "") for n in ("ib_b", "ib_a", "ib_data")}


class Coverage(unittest.TestCase):
    def setUp(self):
        self.coverage = script("coverage")

    def test_functions_and_data(self):
        self.assertEqual(self.coverage.functions(FakeElf()), (["ib_a", "ib_b"], ["ib_data"]))

    def test_counts(self):
        self.assertEqual(self.coverage.parse("ib_a 0\nib_b 12\nib_c -\n"), {"ib_a": 0, "ib_b": 12, "ib_c": None})

    def test_a_damaged_line_counts_for_nothing(self):
        self.assertEqual(self.coverage.parse("ib_a\nib_b 1 2\nib_c -1\n"), {})

    def test_counts_of_two_vms(self):
        self.assertEqual(self.coverage.add([{"ib_a": 0, "ib_b": 1, "ib_c": None}, {"ib_a": 2, "ib_b": None, "ib_c": None}]),
                         {"ib_a": 2, "ib_b": 1, "ib_c": None})

    def test_summary_counts_a_function_once(self):
        table = {"x": {"ib_a": 3, "ib_b": 0}, "y": {"ib_a": 1, "ib_b": None}}
        self.assertEqual(self.coverage.summary(["ib_a", "ib_b", "ib_c"], table),
                         "1 of 3 exported functions called by 2 suites")

    def test_report(self):
        table = {"x": {"ib_a": 3, "ib_b": None}, "y": {"ib_a": 1, "ib_b": None, "ib_gone": 7}}
        lines = list(self.coverage.report(["ib_a", "ib_b"], ["ib_data"], table))
        self.assertIn("ib_a  x y", lines)
        self.assertIn("ib_b  -", lines)
        self.assertIn("y: 1 functions", lines)
        self.assertIn("no probe possible: ib_b", lines)
        self.assertIn("not called: ib_b", lines)
        self.assertEqual(lines[-1], "1 of 2 exported functions called by 2 suites")

    def test_nothing_has_run(self):
        lines = list(self.coverage.report(["ib_a"], [], {}))
        self.assertEqual(lines[-1], "0 of 1 exported functions called by 0 suites")


if __name__ == "__main__":
    unittest.main()
