# SPDX-License-Identifier: GPL-2.0
"""scripts/overlay: into a kernel tree, up to date, off again."""
import os
import subprocess
import tempfile
import unittest

TOP = os.path.realpath(f"{os.path.dirname(os.path.realpath(__file__))}/../..")
FILES = {
    "Makefile": "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n",
    "drivers/infiniband/Kconfig": "menuconfig INFINIBAND\nendif # INFINIBAND\n",
    "drivers/infiniband/Makefile": "obj-$(CONFIG_INFINIBAND) += core/\n",
    "drivers/infiniband/core/Makefile": "obj-$(CONFIG_INFINIBAND) += ib_core.o ib_cm.o\n",
    "drivers/infiniband/core/verbs.c": "/* C */\n",
}
EDITED = {f for f in FILES if f.endswith(("Kconfig", "infiniband/Makefile", "core/Makefile"))}


def content(tree):
    """{path: (mode, bytes)} of all files below TREE."""
    found = {}
    for folder, _, files in os.walk(tree):
        for f in files:
            path = f"{folder}/{f}"
            with open(path, "rb") as file:
                found[os.path.relpath(path, tree)] = (os.stat(path).st_mode, file.read())
    return found


class Overlay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = folder.name
        for path, text in FILES.items():
            os.makedirs(os.path.dirname(f"{self.tree}/{path}"), exist_ok=True)
            with open(f"{self.tree}/{path}", "w") as f:
                f.write(text)
        self.before = content(self.tree)

    def overlay(self, *args, status=0):
        done = subprocess.run([f"{TOP}/scripts/overlay", *args], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def test_only_three_files_are_edited(self):
        self.overlay(self.tree)
        after = content(self.tree)
        self.assertEqual({f for f in self.before if after[f] != self.before[f]}, EDITED)
        added = set(after) - set(self.before)
        self.assertTrue(all(f.startswith("drivers/infiniband/rust/") for f in added))
        for name in ("Kbuild", "Kconfig", ".kunitconfig", "drivers/infiniband/core/parts.mk", "rust/Makefile.bindgen",
                     "rust/bindgen_parameters", "scripts/layout-asserts.py", "tests/kunit/fake/fake.mk"):
            self.assertIn(f"drivers/infiniband/rust/{name}", added)

    def test_all_sources_are_there(self):
        self.overlay(self.tree)
        there = {f[len("drivers/infiniband/rust/"):] for f in content(self.tree)}
        listed = subprocess.run(["git", "-C", TOP, "ls-files", "Kbuild", "drivers", "include", "rust"],
                                capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(set(listed) - there, set())

    def test_removed_the_tree_is_as_before(self):
        self.overlay(self.tree)
        self.overlay(self.tree, "--remove")
        self.assertEqual(content(self.tree), self.before)

    def test_twice_is_once(self):
        self.overlay(self.tree)
        once = content(self.tree)
        self.overlay(self.tree)
        self.assertEqual(content(self.tree), once)

    def test_nothing_to_remove(self):
        self.overlay("--remove", self.tree)
        self.assertEqual(content(self.tree), self.before)

    def test_another_series_is_refused(self):
        with open(f"{self.tree}/Makefile", "w") as f:
            f.write("VERSION = 6\nPATCHLEVEL = 12\n")
        before = content(self.tree)
        self.assertIn("7.3", self.overlay(self.tree, status=1))
        self.assertEqual(content(self.tree), before)

    def test_a_folder_of_others_is_left_alone(self):
        os.mkdir(f"{self.tree}/drivers/infiniband/rust")
        with open(f"{self.tree}/drivers/infiniband/rust/theirs.rs", "w") as f:
            f.write("// theirs\n")
        before = content(self.tree)
        for args in ((self.tree,), (self.tree, "--remove")):
            self.overlay(*args, status=1)
            self.assertEqual(content(self.tree), before)

    def test_no_kernel_tree(self):
        self.assertIn("no kernel source tree", self.overlay(f"{self.tree}/drivers", status=1))


if __name__ == "__main__":
    unittest.main()
