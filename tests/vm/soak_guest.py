"""All probes of the agent under churn, in the guest: `python tests/vm/soak_guest.py [SECONDS] [6.1|6.12]`, as root."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from guest import Guest, Job, run
from kernels import HOST_KERNELS, find

HERE = Path(__file__).resolve().parent
INSIDE = HERE / "inside/soak_probes.py"
MODULES = ":".join(str(HERE.parent / name) for name in ("soak", "support"))


def main() -> int:
    kernels = [one for one in sys.argv[1:] if one in HOST_KERNELS]
    seconds = next((one for one in sys.argv[1:] if one not in HOST_KERNELS), "600")
    for series in kernels or HOST_KERNELS:
        kernel = find(series)
        print(f"Linux {kernel.release}, emulated, {seconds} s", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            job = Job(
                [sys.executable, str(INSIDE), seconds],
                Path(folder),
                {"PYTHONPATH": MODULES},
                timeout=float(seconds) + 300,
            )
            done = run(Guest(kernel), job, sys.stdout)
        if done.exit_code:
            print(done.stderr, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
