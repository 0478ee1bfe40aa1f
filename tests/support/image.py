"""The agent's image, built by `deploy/image/build.sh` unless it is there already."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from numaudit.errors import Unavailable

_BUILD = Path(__file__).parents[2] / "deploy/image/build.sh"


@cache
def rootfs() -> Path:
    """The folder of the image's unpacked root file system; write nothing into it. Raises Unavailable.

    The first build takes some minutes and needs Debian's mirror and PyPI; with nothing changed, it takes a second.
    """
    done = subprocess.run([_BUILD], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"no image: {done.stderr.strip()}")
    return Path(done.stdout.strip())
