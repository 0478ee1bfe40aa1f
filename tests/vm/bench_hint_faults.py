"""What counting a NUMA hint fault costs in the guest: `python tests/vm/bench_hint_faults.py [6.1|6.12]`, as root."""

from __future__ import annotations

import sys

from by_hand import run_inside
from kernels import HOST_KERNELS


def main() -> int:
    return max(run_inside("fault_costs.py", [], series, timeout=600) for series in sys.argv[1:] or HOST_KERNELS)


if __name__ == "__main__":
    sys.exit(main())
