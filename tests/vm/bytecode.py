"""Compiles, here, what Python runs in a guest: an emulated CPU would take seconds for it in each process.

A host may have bytecode switched off, as many containers have, and a fresh checkout has none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from debian import CHECKOUT

_OF_CHECKOUT = ("agent", "tests/conftest.py", "tests/support", "tests/vm")
_PYTHON = f"usr/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
_OF_ROOT = (_PYTHON, "usr/lib/python3/dist-packages")


def beside_the_source() -> dict[str, str]:
    """This process's environment, for a Python that writes bytecode where a guest's looks for it."""
    elsewhere = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    return {name: value for name, value in os.environ.items() if name not in elsewhere}


@cache
def compile_checkout() -> None:
    """What has changed since the last time. pytest does so itself with the modules of tests, when they are listed."""
    _compile("-q", *_OF_CHECKOUT)


def compile_root(root: Path) -> None:
    """The standard library in a root of another architecture, if its Python reads the same bytecode as this one."""
    if (root / _PYTHON).is_dir() and not (root / _PYTHON / "__pycache__").is_dir():
        _compile("-qq", "-s", str(root), "-p", "/", *(str(root / folder) for folder in _OF_ROOT))


def _compile(*arguments: str) -> None:
    """What cannot be compiled fails where it is imported, with its reason."""
    command = [sys.executable, "-m", "compileall", *arguments]
    subprocess.run(command, cwd=CHECKOUT, env=beside_the_source(), check=False)
