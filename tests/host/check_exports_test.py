# SPDX-License-Identifier: GPL-2.0
"""The comparisons of scripts/check-exports."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))), "scripts"))
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from run_tests_test import script
import kmod_elf

ce = script("check-exports")


class Faults(unittest.TestCase):
    def test_equal(self):
        e = {"a": (False, ""), "b": (True, "rdma_core")}
        self.assertEqual(list(ce.export_faults(e, e)), [])

    def test_gpl_differs(self):
        self.assertEqual(len(list(ce.export_faults({"a": (True, "")}, {"a": (False, "")}))), 1)

    def test_namespace_differs(self):
        self.assertEqual(len(list(ce.export_faults({"a": (True, "x")}, {"a": (True, "")}))), 1)

    def test_extra(self):
        self.assertEqual(len(list(ce.export_faults({"a": (True, "")}, {}))), 1)

    def test_classic(self):
        good = {"ib_classic_a": (True, "")}
        self.assertEqual(list(ce.classic_faults({"ib_classic_a"}, good)), [])
        self.assertEqual(len(list(ce.classic_faults({"ib_a"}, {"ib_a": (True, "")}))), 1)
        self.assertEqual(len(list(ce.classic_faults({"ib_classic_a"}, {}))), 1)
        self.assertEqual(len(list(ce.classic_faults({"ib_classic_a"}, {"ib_classic_a": (False, "")}))), 1)

    def test_missing_is_listed_not_a_fault(self):
        self.assertEqual(list(ce.export_faults({}, {"a": (True, "")})), [])
        self.assertEqual(ce.missing_exports({}, {"a": (True, "")}), ["a"])

    def test_undefined(self):
        table = {"x": ("vmlinux", False, ""), "n": ("vmlinux", True, "NS")}
        self.assertEqual(list(ce.symbol_faults({"x"}, set(), table, set())), [])
        self.assertEqual(len(list(ce.symbol_faults({"y"}, set(), table, set()))), 1)
        self.assertEqual(len(list(ce.symbol_faults({"n"}, set(), table, set()))), 1)
        self.assertEqual(list(ce.symbol_faults({"n"}, set(), table, {"NS"})), [])

    def test_modinfo(self):
        stock = [("license", "GPL"), ("alias", "a"), ("alias", "b"), ("intree", "Y"), ("depends", "x,y")]
        self.assertEqual(list(ce.modinfo_faults([("license", "GPL"), ("alias", "b"), ("alias", "a"), ("depends", "y,x")], stock)), [])
        self.assertEqual(len(list(ce.modinfo_faults([("license", "GPL"), ("depends", "x,y")], stock))), 1)

    def test_namespaces(self):
        rxe, core = [("name", "rdma_rxe")], [("name", "ib_core")]
        ns = ("import_ns", "DMA_BUF")
        self.assertEqual(list(ce.modinfo_faults([*rxe, ns], rxe)), [])
        self.assertEqual(len(list(ce.modinfo_faults(rxe, rxe))), 1)
        self.assertEqual(len(list(ce.modinfo_faults([*core, ns], core))), 1)
        self.assertEqual(len(list(ce.modinfo_faults([*core, ns], [*core, ns, ns]))), 1)


class Parts(unittest.TestCase):
    def test_parts(self):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("# c\npart-a\t\t:= rust\npart-b := c\nc-of-a := x.o\n")
            f.flush()
            self.assertEqual(kmod_elf.parts(f.name), {"a": "rust", "b": "c"})
