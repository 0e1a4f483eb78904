# SPDX-License-Identifier: GPL-2.0
"""Kbuild: what is linked as external modules and in a kernel tree, built in or as modules."""
import os
import shutil
import subprocess
import unittest

TOP = os.path.realpath(f"{os.path.dirname(os.path.realpath(__file__))}/../..")
SHARED = {"rust/rdma/rdma.o", "rust/helpers/rdma_helpers.o"}
SHOW = """
src := .
obj := .
srctree := .
objtree := .
include Kbuild
$(foreach v,obj-y obj-m $(patsubst %.o,%-y,$(filter %.o,$(obj-y) $(obj-m))),$(info $(v): $($(v))))
.DEFAULT_GOAL := nothing
nothing: ; @:
FORCE:
"""


def lists(*variables):
    """{variable: its words} of the lists of objects."""
    done = subprocess.run(["make", "-s", "-f", "-", *variables], input=SHOW, capture_output=True, text=True, cwd=TOP)
    if done.returncode:
        raise AssertionError(done.stderr)
    return {k: set(v.split()) for k, v in (l.split(":", 1) for l in done.stdout.splitlines() if ":" in l)}


@unittest.skipUnless(shutil.which("make"), "no make")
class Kbuild(unittest.TestCase):
    def test_external_modules(self):
        found = lists("KBUILD_EXTMOD=x")
        self.assertTrue({"ib_core.o", "rdma_rxe.o", "ib_fake.o", "call_counts.o"} <= found["obj-m"])
        self.assertNotIn("kunit_verbs.o", found["obj-m"])
        self.assertFalse(found["obj-y"])
        for module in ("ib_core-y", "rdma_rxe-y", "ib_fake-y"):
            self.assertTrue(SHARED <= found[module], module)

    def test_external_modules_with_kunit(self):
        found = lists("KBUILD_EXTMOD=x", "CONFIG_KUNIT=y")
        self.assertTrue({"kunit_verbs.o", "sa_test.o", "control_rust.o", "ib_classic_test.o"} <= found["obj-m"])

    def test_built_in_there_is_one_copy_of_the_wrappers(self):
        found = lists("CONFIG_INFINIBAND=y", "CONFIG_KUNIT=y", "CONFIG_INFINIBAND_RUST_KUNIT_TEST=y")
        self.assertTrue(SHARED | {"ib_core.o", "ib_fake.o", "kunit_verbs.o"} <= found["obj-y"])
        for name, objects in found.items():
            if name not in ("obj-y", "obj-m"):
                self.assertFalse(SHARED & objects, name)

    def test_in_a_tree_tests_are_an_option(self):
        found = lists("CONFIG_INFINIBAND=y", "CONFIG_KUNIT=y")
        self.assertEqual(found["obj-y"], SHARED | {"ib_core.o"})

    def test_modules_in_a_tree(self):
        found = lists("CONFIG_INFINIBAND=m", "CONFIG_KUNIT=y", "CONFIG_INFINIBAND_RUST_KUNIT_TEST=y")
        self.assertTrue({"ib_core.o", "ib_fake.o", "kunit_verbs.o"} <= found["obj-m"])
        self.assertNotIn("rdma_rxe.o", found["obj-m"])
        self.assertFalse(found["obj-y"])
        self.assertTrue(SHARED <= found["kunit_verbs-y"])


if __name__ == "__main__":
    unittest.main()
