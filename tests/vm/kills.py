"""`numaudit run` killed 50 times at each write step: `python tests/vm/kills.py [--kernel 6.1] [--kills 50]`, as root.

The long form of tests/vm/inside/test_run_faults.py, with as many pairs of runs that start at the same instant as
`--races` says. Takes some 20 minutes on an idle host.
"""

from __future__ import annotations

import argparse
import sys

from by_hand import run_command
from kernels import HOST_KERNELS

INSIDE = "tests/vm/inside/test_run_faults.py"
SECONDS = 3 * 3600
"""At most, on a crowded host."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=HOST_KERNELS, default="6.12", help="kernel series (default: 6.12)")
    parser.add_argument("--kills", type=int, default=50, help="at each step (default: 50)")
    parser.add_argument("--races", type=int, default=100, help="pairs of runs (default: 100)")
    options = parser.parse_args()
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:hypothesispytest", "--durations=0", INSIDE]
    environment = {"RUN_KILLS": str(options.kills), "RUN_RACES": str(options.races)}
    return run_command(command, options.kernel, SECONDS, environment)


if __name__ == "__main__":
    sys.exit(main())
