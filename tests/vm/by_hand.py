"""Runs a command in the guest and shows what it prints: for long runs that are started by hand, as root."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from debian import CHECKOUT
from guest import Guest, Job, run
from kernels import find

HERE = Path(__file__).resolve().parent
MODULES = ":".join(map(str, (HERE, CHECKOUT / "agent", HERE.parent / "soak", HERE.parent / "support")))
_NO_VARIABLES: Mapping[str, str] = {}


def run_inside(
    script: str,
    arguments: Sequence[str],
    series: str,
    timeout: float,
    fast_numa_balancing: bool = True,
    show: IO[str] | None = None,
) -> int:
    """`inside/SCRIPT` under the kernel of this series; see `run_command`."""
    command = [sys.executable, str(HERE / "inside" / script), *arguments]
    return run_command(command, series, timeout, fast_numa_balancing=fast_numa_balancing, show=show)


def run_command(
    command: Sequence[str],
    series: str,
    timeout: float,
    environment: Mapping[str, str] = _NO_VARIABLES,
    fast_numa_balancing: bool = True,
    show: IO[str] | None = None,
) -> int:
    """Boot, run the command, power off. Its exit status; its errors go to stderr, its output to `show` or stdout."""
    kernel = find(series)
    print(f"Linux {kernel.release}, emulated", flush=True)
    with tempfile.TemporaryDirectory(prefix="numaudit-guest-") as folder:
        job = Job(command, Path(folder), {"PYTHONPATH": MODULES, **environment}, timeout)
        done = run(Guest(kernel, fast_numa_balancing=fast_numa_balancing), job, show or sys.stdout)
    if done.exit_code:
        sys.stderr.write(done.stderr)
    return done.exit_code
