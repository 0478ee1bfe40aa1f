"""What a walk over all cgroups costs in guests: `python tests/vm/bench_cgroup_walk.py [6.1|6.12] [OPTION...]`, as root.

Options are those of tests/bench/bench_residency.py, such as --cgroups=5000.
"""

from __future__ import annotations

import sys

from by_hand import HERE, run_command
from kernels import HOST_KERNELS

BENCH = HERE.parent / "bench" / "bench_residency.py"


def main() -> int:
    series = [word for word in sys.argv[1:] if word in HOST_KERNELS] or HOST_KERNELS
    options = [word for word in sys.argv[1:] if word not in HOST_KERNELS]
    return max(run_command([sys.executable, str(BENCH), *options], one, timeout=3600) for one in series)


if __name__ == "__main__":
    sys.exit(main())
