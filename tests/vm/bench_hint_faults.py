"""What counting a NUMA hint fault costs in the guest: `python tests/vm/bench_hint_faults.py [6.1|6.12]`, as root."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from guest import Guest, Job, run
from kernels import HOST_KERNELS, find

INSIDE = Path(__file__).parent / "inside/fault_costs.py"


def main() -> int:
    for series in sys.argv[1:] or HOST_KERNELS:
        kernel = find(series)
        print(f"Linux {kernel.release}, emulated", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            done = run(Guest(kernel), Job([sys.executable, str(INSIDE)], Path(folder), timeout=600), sys.stdout)
        if done.exit_code:
            print(done.stderr, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
