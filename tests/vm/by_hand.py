"""Runs a script of inside/ in the guest and shows what it prints: for long runs that are started by hand, as root."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from debian import CHECKOUT
from guest import Guest, Job, run
from kernels import find

HERE = Path(__file__).resolve().parent
_MODULES = ":".join(map(str, (HERE, CHECKOUT / "agent", HERE.parent / "soak", HERE.parent / "support")))


def run_inside(
    script: str, arguments: Sequence[str], series: str, timeout: float, fast_numa_balancing: bool = True
) -> int:
    """Boot the kernel of this series, run `inside/SCRIPT`, power off. Its exit status; its errors go to stderr."""
    kernel = find(series)
    print(f"Linux {kernel.release}, emulated", flush=True)
    with tempfile.TemporaryDirectory(prefix="numaudit-guest-") as folder:
        command = [sys.executable, str(HERE / "inside" / script), *arguments]
        job = Job(command, Path(folder), {"PYTHONPATH": _MODULES}, timeout)
        done = run(Guest(kernel, fast_numa_balancing=fast_numa_balancing), job, sys.stdout)
    if done.exit_code:
        sys.stderr.write(done.stderr)
    return done.exit_code
