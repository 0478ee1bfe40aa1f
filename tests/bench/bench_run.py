"""What `numaudit run` adds to starting a command.

Run: python tests/bench/bench_run.py [REPETITIONS], as root on a host whose cpuset controller is in cgroup version 2. It
fails when a command starts more than 150 ms later than without it. The peer in the same run: the command alone, and
Python alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from goals import at_most
from numaudit.errors import Unavailable
from short import repetitions, run

LIMIT_SECONDS, SHORT_START = 0.150, 1000.0
NUMAUDIT = [sys.executable, "-c", "from numaudit.cli.start import run; run()"]
CANNOT = 125


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="numaudit-bench-") as folder:
        arguments = ["run", "--memory", "16Mi", "--state-dir", folder, "--"]
        stamp = Path(folder) / "began"
        command = [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import time; open({str(stamp)!r}, 'w').write(repr(time.monotonic()))",
        ]
        tried = subprocess.run([*NUMAUDIT, *arguments, "true"], capture_output=True, text=True, check=False)
        if tried.returncode == CANNOT:
            raise Unavailable(tried.stderr.strip())
        alone, under, python = [], [], []
        for _ in range(repetitions(20)):
            alone.append(_until_it_begins(command, stamp))
            under.append(_until_it_begins([*NUMAUDIT, *arguments, *command], stamp))
            python.append(_seconds([sys.executable, "-c", "import click"]))
    added = min(under) - min(alone)
    print(f"a command begins after {min(alone) * 1000:.0f} ms alone, {min(under) * 1000:.0f} ms under numaudit run")
    print(f"Python with click alone: {min(python) * 1000:.0f} ms")
    print(f"added: {added * 1000:.0f} ms, allowed {LIMIT_SECONDS * 1000:.0f} ms")
    at_most("what numaudit run adds to a start", added * 1000, LIMIT_SECONDS * 1000, "ms", short=SHORT_START)


def _until_it_begins(command: list[str], stamp: Path) -> float:
    before = time.monotonic()
    subprocess.run(command, check=True)
    return float(stamp.read_text()) - before


def _seconds(command: list[str]) -> float:
    before = time.monotonic()
    subprocess.run(command, check=True)
    return time.monotonic() - before


if __name__ == "__main__":
    run(main)
