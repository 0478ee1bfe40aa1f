"""Figures beside the truth: `python tests/vm/truth.py [--kernel 6.1] [--rounds 3] [--only pages] [NAME...]`, as root.

Boots the guest and has processes use known memory from known nodes. `pages`: what numaudit says of bytes that are used
from other nodes, at each tick, beside what the work itself knows. A round is one trial of each workload and takes some
ten minutes. `figures`: bytes, CPU time, allocations and migrations beside the truth, in two minutes.

Every trial is kept in truth.json, of which docs/truth.md is made; one of the same figure, workload and kernel replaces
the earlier ones. Exit status 1: a claim was false.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from debian import CHECKOUT
from documentation.kept_truth import Records, keep
from guest import Guest, Job, run
from kernels import HOST_KERNELS, Kernel, find

HERE = CHECKOUT / "tests/vm"
MODULES = ":".join(map(str, (HERE, CHECKOUT / "agent", CHECKOUT / "tests/support")))
"""PYTHONPATH in the guest."""
SECONDS_OF_ROUND = 3600
"""At most, on a crowded host."""
PARTS = {"figures": "figure_truth.py", "pages": "page_truth.py"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=HOST_KERNELS, action="append", help="kernel series (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="trials of each workload (default: 3)")
    parser.add_argument("--only", choices=PARTS, help="one part (default: both)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads of inside/page_truth.py (default: all)")
    options = parser.parse_args()
    if options.names and options.only == "figures":
        parser.error("names are those of --only pages")
    timeout = 600 + SECONDS_OF_ROUND * options.rounds
    parts = [options.only] if options.only else ["pages"] if options.names else list(PARTS)
    status = 0
    for series in options.kernel or HOST_KERNELS:
        for part in parts:
            records, kernel = Records(), find(series)
            done = _run_inside(PARTS[part], [str(options.rounds), *options.names], kernel, timeout, records)
            status = max(status, done)
            keep(records.found, series, kernel.release)
    return status


def _run_inside(script: str, arguments: Sequence[str], kernel: Kernel, timeout: float, show: Records) -> int:
    """`inside/SCRIPT` in the guest: its exit status. Its errors go to stderr."""
    print(f"Linux {kernel.release}, emulated", flush=True)
    command = [sys.executable, str(HERE / "inside" / script), *arguments]
    with tempfile.TemporaryDirectory(prefix="numaudit-guest-") as folder:
        job = Job(command, Path(folder), {"PYTHONPATH": MODULES}, timeout)
        done = run(Guest(kernel), job, cast("IO[str]", show))
    if done.exit_code:
        sys.stderr.write(done.stderr)
    return done.exit_code


if __name__ == "__main__":
    sys.exit(main())
