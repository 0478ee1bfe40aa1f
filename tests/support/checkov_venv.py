"""checkov, which looks for weak points in manifests, in a virtual environment of its own: it is 290 MB.

Fetched by hand with `.venv/bin/python tests/support/checkov_venv.py`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from numaudit.errors import Unavailable

VERSION = "3.3.30"
FOLDER = Path(__file__).resolve().parents[2] / ".cache/tools" / f"checkov-{VERSION}"
PROGRAM = FOLDER / "bin/checkov"


def find() -> Path:
    """The program fetched before. Raises Unavailable."""
    if not PROGRAM.exists():
        raise Unavailable("no checkov; fetch it with: .venv/bin/python tests/support/checkov_venv.py")
    return PROGRAM


def main() -> int:
    if PROGRAM.exists():
        return 0
    try:
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
        pip = [str(FOLDER / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, f"checkov=={VERSION}"], check=True, stderr=subprocess.PIPE, text=True)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(FOLDER, ignore_errors=True)
        print(f"checkov: not installed: {error}\n{error.stderr or ''}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
