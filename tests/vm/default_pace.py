"""Does `remote-access` hold at the kernel's own pace? `python tests/vm/default_pace.py [MINUTES] [6.1|6.12]`, as root.

Boots the guest with the kernel's default settings of NUMA balancing, where samples come in bursts minutes apart, and
watches a workload that uses remote memory all the time. Exit status 1: the verdict came, and went again.
"""

from __future__ import annotations

import sys

from by_hand import run_inside
from kernels import HOST_KERNELS


def main() -> int:
    kernels = [one for one in sys.argv[1:] if one in HOST_KERNELS]
    minutes = next((one for one in sys.argv[1:] if one not in HOST_KERNELS), "12")
    return max(
        run_inside(
            "remote_at_default_pace.py", [minutes], series, timeout=60 * float(minutes) + 600, fast_numa_balancing=False
        )
        for series in kernels or HOST_KERNELS
    )


if __name__ == "__main__":
    sys.exit(main())
