"""See numaudit at work on a machine you do not have: four nodes, three workloads, one report.

.venv/bin/python tests/vm/lab.py [--kernel 6.1] [--keep SECONDS | --shell]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from debian import CHECKOUT
from guest import Guest, Job, run
from kernels import HOST_KERNELS, fetch
from numaudit.errors import NumauditError, Unavailable

INTRODUCTION = """\
A guest with Linux {release}, four nodes of one CPU and 512 MiB each, at these distances:

    node    0   1   2   3
      0    10  12  20  32
      1    12  10  32  20
      2    20  32  10  12
      3    32  20  12  10

Three workloads run on CPU 0, which is on node 0:

    aligned      may use node 0 only: all its memory is local
    misaligned   may use node 2 only: all its memory is remote, at distance 20
    split        interleaves its pages over nodes 0 and 1: half of it is remote, at distance 12

The guest is emulated: placement is real, speed is not. All nodes are equally fast.
The report comes in a minute or two, and later on a busy machine. Ctrl-C ends it.
"""

SHELL = """\
A shell follows: `exit` powers the guest off, Ctrl-A X pulls its plug. Try:

    {numaudit} report
    cd /sys/fs/cgroup/numaudit-lab/misaligned
    echo 0 > cpuset.mems; {numaudit} report     # its memory moves home
"""

READING = """
How to read it: ALLOWED = the nodes that its memory may be on, CPU NODES = the node of its CPUs, N0 to N3 = where it is.

    misaligned   runs on node 0 and has its memory on node 2, so all of it is REMOTE. Its cpuset allows no other node:
                 that is the cause below the table. cpuset.mems 0 would put it right.
    split        runs on node 0 and has half of its memory on node 1. Its own memory policy spreads it.
    aligned      runs on node 0 and has its memory there: nothing to do.

Try it yourself: .venv/bin/python tests/vm/lab.py --shell
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=HOST_KERNELS, default="6.12", help="kernel series (default: 6.12)")
    after = parser.add_mutually_exclusive_group()
    after.add_argument("--keep", type=float, default=0, metavar="SECONDS", help="report again after so long")
    after.add_argument("--shell", action="store_true", help="a shell in the guest instead of a report")
    options = parser.parse_args()
    try:
        return _lab(options.kernel, options.keep, options.shell)
    except NumauditError as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 3 if isinstance(problem, Unavailable) else 4


def _lab(series: str, keep: float, shell: bool) -> int:
    kernel = fetch(series)
    print(INTRODUCTION.format(release=kernel.release), flush=True)
    if shell:
        print(SHELL.format(numaudit=CHECKOUT / ".venv/bin/numaudit"), flush=True)
    report = [str(CHECKOUT / ".venv/bin/numaudit"), "report", "--duration", "5s"]
    beside = ["/bin/bash"] if shell else report
    program = str(Path(__file__).parent / "inside/three_workloads.py")
    with tempfile.TemporaryDirectory(prefix="numaudit-lab-") as folder:
        job = Job(
            [sys.executable, program, "--keep", str(keep), *beside],
            Path(folder),
            {"COLUMNS": str(shutil.get_terminal_size().columns)},
            timeout=86400 if shell else 900 + keep,
            on_terminal=shell,
        )
        done = run(Guest(kernel), job, show=sys.stdout)
    sys.stderr.write(done.stderr)
    if not shell and not done.exit_code:
        print(READING, end="")
    return done.exit_code


if __name__ == "__main__":
    sys.exit(main())
