# SPDX-License-Identifier: GPL-2.0
"""The examples in Documentation/testing-your-ulp.md are those that are built."""
import os
import textwrap
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def read(path):
    with open(f"{TOP}/{path}", encoding="utf-8") as f:
        return f.read()


def indented(text):
    return textwrap.indent(text.replace("\t", " " * 8), "    ").rstrip()


class Examples(unittest.TestCase):
    doc = read("Documentation/testing-your-ulp.md")

    def test_c(self):
        source = read("tests/kunit/example/ulp_c.c")
        shown = source[source.index("/* What is tested"):source.index("MODULE_DESCRIPTION")]
        self.assertIn(indented(shown), self.doc)

    def test_rust(self):
        source = read("tests/kunit/example/ulp_rust.rs")
        self.assertIn(indented(source[source.index("/// What is tested"):]), self.doc)
