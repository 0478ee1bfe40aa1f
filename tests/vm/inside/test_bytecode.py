"""An emulated CPU takes seconds to compile the package: no process in a guest does."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

import numaudit

PACKAGE = Path(numaudit.__file__).parent
STANDARD_LIBRARY = Path(re.__file__).parents[1]


@pytest.mark.arm64
def test_python_finds_everything_compiled() -> None:
    command = [sys.executable, "-v", "-c", "import numaudit.cli.main"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = [Path(path) for path in re.findall(r"^# code object from '?(\S+?\.pyc?)'?$", done.stderr, re.MULTILINE)]
    ours = {path for path in loaded if path.is_relative_to(PACKAGE) or path.is_relative_to(STANDARD_LIBRARY)}
    assert cache_from_source(str(PACKAGE / "cli/main.py")) in map(str, ours)
    assert [
        path for path in ours if path.suffix == ".py" and not path.is_symlink()
    ] == []  # Debian's sitecustomize is one
