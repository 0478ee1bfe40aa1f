"""The guests of a test run in a process of their own (`boots.py`), so that host tests and guests share no thread."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import boots
from debian import tool


class Background:
    """Guests that run from now on. It raises Unavailable where a host cannot run any."""

    def __init__(self, tests: Mapping[str, Sequence[str]]) -> None:
        """`tests`: kernel's name -> its tests. Kernels are booted in this order."""
        self._folder = Path(tempfile.mkdtemp(prefix="numaudit-guests-"))
        self._plans = {}
        for kernel, names in tests.items():
            self._plans[kernel] = boots.Plan(kernel, self._folder / kernel, names)
        file = self._folder / "plan.json"
        boots.write(self._plans.values(), file)
        command = [tool("setpriv"), "--pdeathsig", "KILL", sys.executable, boots.__file__, str(file)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def ended(self, kernel: str) -> boots.Plan:
        """Waits until all boots of a kernel have ended."""
        assert self._process.stdout
        while not self._plans[kernel].ended.exists():
            if not self._process.stdout.readline():
                pytest.fail(f"boots.py ended with {self._process.wait()} before the guests of {kernel}", pytrace=False)
        return self._plans[kernel]

    def stop(self) -> None:
        """What still runs ends with its parent."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)  # a guest that is being killed may still write
