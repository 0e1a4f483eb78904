# SPDX-License-Identifier: GPL-2.0
"""What the Python scripts share; lib.sh is the same for the shell."""
import importlib.machinery
import importlib.util
import os
import subprocess

SCRIPTS = os.path.dirname(os.path.realpath(__file__))


def script(name):
    """A script of this folder, which has no .py, as a Python module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), f"{SCRIPTS}/{name}")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def shell(expression):
    """What lib.sh makes of a variable or several, as in "$tree/file"."""
    return subprocess.run(["sh", "-euc", f'. "$0"; echo "{expression}"', f"{SCRIPTS}/lib.sh"], check=True,
                          capture_output=True, text=True, cwd=SCRIPTS).stdout.strip()


def program(source, folder, *libraries):
    """Compiles a C file of the project for the VM into build/FOLDER; where the program is."""
    top = os.path.dirname(SCRIPTS)
    out = f"{top}/build/{folder}/{os.path.basename(source)[:-2]}"
    os.makedirs(os.path.dirname(out), exist_ok=True)
    subprocess.run([f"{SCRIPTS}/in-rootfs", "gcc", "-O2", "-Wall", "-Wextra", "-o", out, f"{top}/{source}", *libraries], check=True)
    return out
