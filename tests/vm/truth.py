"""Hint faults beside the truth: `python tests/vm/truth.py [--kernel 6.1] [--rounds 3] [NAME...]`, as root.

Boots the guest and has processes use known memory from known nodes. Prints of each trial: bytes that are used from
other nodes by what the work itself knows, and what numaudit says of them at each tick. A round is one trial of each
workload and takes some ten minutes. Exit status 1: a claim was false.
"""

from __future__ import annotations

import argparse
import sys

from by_hand import run_inside
from kernels import HOST_KERNELS

SECONDS_OF_ROUND = 3600
"""At most, on a crowded host."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=HOST_KERNELS, default="6.12", help="kernel series (default: 6.12)")
    parser.add_argument("--rounds", type=int, default=3, help="trials of each workload (default: 3)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads of inside/page_truth.py (default: all)")
    options = parser.parse_args()
    timeout = 600 + SECONDS_OF_ROUND * options.rounds
    return run_inside("page_truth.py", [str(options.rounds), *options.names], options.kernel, timeout)


if __name__ == "__main__":
    sys.exit(main())
