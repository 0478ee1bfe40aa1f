"""All probes of the agent under churn, in the guest: `python tests/vm/soak_guest.py [SECONDS] [6.1|6.12]`, as root."""

from __future__ import annotations

import sys

from by_hand import run_inside
from kernels import HOST_KERNELS


def main() -> int:
    kernels = [one for one in sys.argv[1:] if one in HOST_KERNELS]
    seconds = next((one for one in sys.argv[1:] if one not in HOST_KERNELS), "600")
    return max(
        run_inside("soak_probes.py", [seconds], series, timeout=float(seconds) + 300)
        for series in kernels or HOST_KERNELS
    )


if __name__ == "__main__":
    sys.exit(main())
