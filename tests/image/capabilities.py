"""Measures what each capability brings, by the kernels of this host and the guests, for docs/security.md.

    python tests/image/capabilities.py [host] [6.1] [6.12]

`make capabilities` runs all three. Writes tests/golden/capabilities-*.json; `make golden` puts them into the page.
Takes a minute here, and some five in each guest.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in ("support", "integration", "vm"):
    sys.path.insert(0, str(HERE.parent / folder))

from capability_table import write  # noqa: E402
from confinement import image  # noqa: E402
from debian import CHECKOUT  # noqa: E402
from guest import Guest, Job, run  # noqa: E402
from kernels import HOST_KERNELS, find  # noqa: E402

MEASURE = [sys.executable, str(HERE.parent / "support/capability_table.py")]
MODULES = ":".join(str(CHECKOUT / name) for name in ("tests/support", "tests/integration", "agent"))
PATIENCE = 3600


def main() -> int:
    image.rootfs()
    for where in sys.argv[1:] or ("host", *HOST_KERNELS):
        print(f"measuring: {where}", flush=True)
        if where == "host":
            environment = {**os.environ, "PYTHONPATH": MODULES}
            done = subprocess.run(MEASURE, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            write(platform.release(), done.stdout.splitlines())
        else:
            write(find(where).release, _in_guest(where).splitlines())
    return 0


def _in_guest(series: str) -> str:
    with tempfile.TemporaryDirectory(prefix="numaudit-guest-") as name:
        job = Job(MEASURE, Path(name), {"PYTHONPATH": MODULES}, PATIENCE)
        done = run(Guest(find(series)), job, sys.stdout)
    if done.exit_code:
        sys.exit(f"{series}: exit status {done.exit_code}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
