# SPDX-License-Identifier: GPL-2.0
"""What scripts/check-imports takes for a fault."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))), "scripts"))
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from run_tests_test import script

ci = script("check-imports")


class Object:
    """What the check asks of an ELF file: (name, binding, section)."""

    def __init__(self, *symbols):
        self.symbols = [(name, bind, shndx, 0) for name, bind, shndx in symbols]

    def undefined(self):
        return {name for name, bind, shndx, _ in self.symbols if not shndx and bind in (1, 2)}


class Faults(unittest.TestCase):
    table = {"ib_query_port": ("ib_core", False, "")}

    def test_exported(self):
        self.assertEqual(ci.faults({"a": Object(("ib_query_port", 1, 0))}, self.table), [])

    def test_of_the_other_object(self):
        objects = {"a": Object(("rust_helper_x", 1, 0)), "b": Object(("rust_helper_x", 1, 4))}
        self.assertEqual(ci.faults(objects, self.table), [])

    def test_local_symbol_of_the_other_object(self):
        objects = {"a": Object(("x", 1, 0)), "b": Object(("x", 0, 4))}
        self.assertEqual(ci.faults(objects, self.table), [("a", "x")])

    def test_internal(self):
        self.assertEqual(ci.faults({"a": Object(("ib_cache_gid_add", 1, 0))}, self.table), [("a", "ib_cache_gid_add")])

    def test_this_module(self):
        self.assertEqual(ci.faults({"a": Object(("__this_module", 1, 0))}, self.table), [])
