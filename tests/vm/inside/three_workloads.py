"""Starts an aligned, a misaligned and a split workload, shows where they are, then runs a command beside them.

    three_workloads.py [--keep SECONDS] COMMAND [ARGUMENT...]

With --keep the command is run a second time, that many seconds after the first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import ExitStack

from workload import MIB, Cgroup, cgroup, worker

SIZE = 48 * MIB
LAB = "numaudit-lab"


def start(stack: ExitStack) -> dict[str, Cgroup]:
    """All three run on CPU 0, which is on node 0, and rewrite `SIZE` bytes over and over."""
    groups = {
        "aligned": stack.enter_context(cgroup(f"{LAB}/aligned", cpus="0", mems="0")),
        "misaligned": stack.enter_context(cgroup(f"{LAB}/misaligned", cpus="0", mems="2")),
        "split": stack.enter_context(cgroup(f"{LAB}/split", cpus="0", mems="0-1")),
    }
    for name, group in groups.items():
        policy = "interleave" if name == "split" else None
        nodes = (0, 1) if policy else ()
        stack.enter_context(worker(group, SIZE, policy=policy, nodes=nodes, threads=2)).order("touch")
    return groups


def show(groups: dict[str, Cgroup]) -> None:
    """The kernel's own figures, to hold the report against."""
    print("memory.numa_stat, anon, in MiB (each workload holds 48 and its interpreter some 5):", flush=True)
    for name, group in groups.items():
        anon = (f"node {node} {size / MIB:5.1f}" for node, size in group.numa_stat("anon").items())
        print(f"  {group.path.parent.name}/{name:<11}", *anon, sep="   ")
    print(flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=float, default=0, metavar="SECONDS")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    with ExitStack() as stack:
        groups = start(stack)
        show(groups)
        status = subprocess.run(options.command, check=False).returncode if options.command else 0
        if options.keep:
            time.sleep(options.keep)
            show(groups)
            status = subprocess.run(options.command, check=False).returncode if options.command else status
    return status


if __name__ == "__main__":
    sys.exit(main())
