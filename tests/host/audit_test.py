# SPDX-License-Identifier: GPL-2.0
"""scripts/audit."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from run_tests_test import script

audit = script("audit")
SPDX = "// SPDX-License-Identifier: GPL-2.0\n"


def faults(text, path="rust/x/x.rs"):
    return audit.audit(path, SPDX + text)[0]


class Audit(unittest.TestCase):
    def test_documented_block(self):
        self.assertEqual(faults("// SAFETY: it is.\nunsafe { f() };\n"), [])

    def test_undocumented_block(self):
        self.assertEqual(len(faults("fn a() {\n    unsafe { f() };\n}\n")), 1)

    def test_statement_over_lines(self):
        self.assertEqual(faults("// SAFETY: it is.\nlet x =\n    unsafe { f() };\n"), [])

    def test_comment_of_another_statement(self):
        self.assertEqual(len(faults("// SAFETY: it is.\nunsafe { f() };\nunsafe { g() };\n")), 1)

    def test_unsafe_fn(self):
        self.assertEqual(faults("/// Doc.\n///\n/// # Safety\n///\n/// P is valid.\npub unsafe fn f() {}\n"), [])
        self.assertEqual(len(faults("/// Doc.\npub unsafe fn f() {}\n")), 1)

    def test_unsafe_fn_of_a_trait(self):
        self.assertEqual(faults("// SAFETY: it is.\nunsafe impl T for X {\n    unsafe fn f() {}\n}\n"), [])
        self.assertEqual(faults("impl<A> T for X<A>\nwhere\n    A: B,\n{\n    unsafe fn f() {}\n}\n"), [])
        self.assertEqual(len(faults("impl X {\n    unsafe fn f() {}\n}\n")), 1)

    def test_not_code(self):
        self.assertEqual(faults('// unsafe\n/* unsafe /* unsafe */ unsafe */\nlet x = "unsafe"; let y = r#"unsafe " unsafe"#;\n'), [])

    def test_char_literals_do_not_open_strings(self):
        self.assertEqual(len(faults("let q = '\"';\nunsafe { f() };\n")), 1)

    def test_function_pointer_type(self):
        self.assertEqual(faults("type F = unsafe extern \"C\" fn(*mut u8);\n"), [])

    def test_logic_file(self):
        text = "// SAFETY: no excuse.\nunsafe { f() };\n"
        self.assertEqual(len(faults(text, "drivers/infiniband/core/cache.rs")), 1)
        self.assertEqual(faults(text, "drivers/infiniband/core/ffi/cache.rs"), [])
        self.assertEqual(faults(text, "drivers/infiniband/core/ib_core_main.rs"), [])

    def test_spdx(self):
        self.assertEqual(len(audit.audit("a/x.rs", "fn f() {}\n")[0]), 1)
        self.assertEqual(len(audit.audit("a/tool", "#!/bin/sh\necho\n")[0]), 1)
        self.assertEqual(audit.audit("README.md", "text\n")[0], [])

    def test_length(self):
        self.assertEqual(len(audit.audit("a/x.rs", SPDX + "\n" * 900)[1]), 1)
