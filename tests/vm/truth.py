"""Hint faults beside the truth: `python tests/vm/truth.py [--kernel 6.1] [--rounds 8]`, as root.

Boots the guest and has processes use known memory from known CPUs. Prints of each trial: the share of remote accesses
by what the work itself counts, that of the samples, and the share and the interval that numaudit gives. A round is one
trial of each workload and takes some 90 seconds. Exit status 1: fewer than 90 of 100 intervals hold the truth.
"""

from __future__ import annotations

import argparse
import sys

from by_hand import run_inside
from kernels import HOST_KERNELS

SECONDS_OF_ROUND = 600
"""At most, on a crowded host."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=HOST_KERNELS, default="6.12", help="kernel series (default: 6.12)")
    parser.add_argument("--rounds", type=int, default=8, help="trials of each workload (default: 8)")
    options = parser.parse_args()
    timeout = 600 + SECONDS_OF_ROUND * options.rounds
    return run_inside("access_truth.py", [str(options.rounds)], options.kernel, timeout)


if __name__ == "__main__":
    sys.exit(main())
