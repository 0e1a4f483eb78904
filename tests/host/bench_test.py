# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of scripts/bench."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from run_tests_test import script

bench = script("bench")


class Bench(unittest.TestCase):
    def test_parse(self):
        self.assertEqual(bench.parse("pd 12\nnoise here too\nbw 3.5\nx y\n"), {"pd": 12.0, "bw": 3.5})

    def test_medians_and_rows(self):
        c = bench.medians([{"pd": 10, "bw-MBs": 50}, {"pd": 30, "bw-MBs": 50}])
        rust = bench.medians([{"pd": 21, "bw-MBs": 40}])
        table = {n: r for n, _, _, r in bench.rows(c, rust)}
        self.assertAlmostEqual(table["pd"], 21 / 20)
        self.assertAlmostEqual(table["bw-MBs"], 50 / 40)

    def test_missing_side(self):
        self.assertEqual(list(bench.rows({"a": 1.0}, {})), [("a", 1.0, None, None)])
