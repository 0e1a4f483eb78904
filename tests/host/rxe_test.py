# SPDX-License-Identifier: GPL-2.0
"""Soft-RoCE's wire format and state machines, compiled for the host with the compiler of the
kernel build and all checks of a debug build: see rxe.rs."""
import os
import subprocess
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Rxe(unittest.TestCase):
    def test_host_tests(self):
        os.makedirs(f"{TOP}/build", exist_ok=True)
        with tempfile.TemporaryDirectory(dir=f"{TOP}/build") as tmp:
            exe = f"{os.path.relpath(tmp, TOP)}/rxe"
            build = ["rustc", "--test", "-O", "-C", "debug-assertions", "-C", "overflow-checks",
                     "--edition", "2021", "-D", "warnings", "tests/host/rxe.rs", "-o", exe]
            self.run_in_rootfs(build)
            self.run_in_rootfs([f"./{exe}"])

    def run_in_rootfs(self, command):
        done = subprocess.run([f"{TOP}/scripts/in-rootfs", *command], cwd=TOP, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
