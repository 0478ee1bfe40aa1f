"""npm packages for the tests, below `.cache/npm`: what tests/integration/npm/package-lock.json pins. By hand:

.venv/bin/python tests/integration/npm_packages.py
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from numaudit.errors import NumauditError, Unavailable

_PINNED = Path(__file__).with_name("npm")
_FILES = ("package.json", "package-lock.json")
_CACHE = Path(__file__).resolve().parents[2] / ".cache/npm"


def find() -> Path:
    """The folder that has `node_modules`, fetched before. Raises Unavailable."""
    if not _folder().is_dir():
        raise Unavailable("no npm packages; fetch them with: .venv/bin/python tests/integration/npm_packages.py")
    return _folder()


def fetch() -> None:
    """Download what is pinned unless it is there. No package runs a script. Raises Unavailable."""
    if _folder().is_dir():
        return
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE, prefix="unpack-") as scratch:
        folder = Path(scratch) / "packages"
        folder.mkdir()
        for name in _FILES:
            shutil.copy(_PINNED / name, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise Unavailable("the command npm is missing: install the package npm") from None
        if done.returncode:
            raise Unavailable(f"`{' '.join(command)}` failed ({done.returncode}): {done.stderr.strip()}")
        folder.rename(_folder())


def _folder() -> Path:
    """Another one for other pins."""
    return _CACHE / hashlib.sha256(b"".join((_PINNED / name).read_bytes() for name in _FILES)).hexdigest()[:16]


def main() -> int:
    try:
        fetch()
    except NumauditError as problem:
        print(f"npm_packages: {problem}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
