"""Which tests a pytest of this checkout runs, and in which order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]


def _collected(*arguments: str) -> list[str]:
    """The files of the tests, in their order."""
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider", "--collect-only", "-q"]
    done = subprocess.run([*command, *arguments], cwd=TOP, capture_output=True, text=True, check=True)
    return [line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line]


def test_what_measures_time_runs_after_everything_else() -> None:
    found = _collected("tests/attack", "tests/packaging")
    assert list(dict.fromkeys(found)) == ["tests/packaging/test_wheel.py", "tests/attack/test_attack.py"]


def test_goldens_are_rewritten_by_the_tests_that_compare_them_and_no_other_runs() -> None:
    files = ("tests/unit/test_golden.py", "tests/unit/test_fixtures.py", "tests/unit/docs/test_readme.py")
    assert all("\ndef test_" in (TOP / file).read_text() for file in files)
    selected = _collected("--update-golden", *files)
    assert set(selected) == set(files) - {"tests/unit/test_fixtures.py"}
    assert selected.count("tests/unit/docs/test_readme.py") == 1
