# SPDX-License-Identifier: GPL-2.0
"""Logic without the kernel, compiled for the host with the compiler of the kernel build and all
checks of a debug build: Soft-RoCE's wire format and state machines (rxe.rs), user memory (umem.rs)."""
import os
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Rust(unittest.TestCase):
    def test_rxe(self):
        self.build_and_run("rxe", ["--test"])

    def test_umem(self):
        self.build_and_run("umem", [])

    def build_and_run(self, name, options):
        os.makedirs(f"{TOP}/build", exist_ok=True)
        with tempfile.TemporaryDirectory(dir=f"{TOP}/build") as tmp:
            exe = f"{os.path.relpath(tmp, TOP)}/{name}"
            build = ["rustc", *options, "-O", "-C", "debug-assertions", "-C", "overflow-checks",
                     "--edition", "2021", "-D", "warnings", f"tests/host/{name}.rs", "-o", exe]
            self.run_in_rootfs(build)
            self.run_in_rootfs([f"./{exe}"])

    def run_in_rootfs(self, command):
        done = subprocess.run([f"{TOP}/scripts/in-rootfs", *command], cwd=TOP, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
