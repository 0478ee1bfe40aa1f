"""The example in docs/memorymanager.md runs and prints what the page says; the functions it names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from numaudit.memorymanager import api

PAGE = (Path(__file__).parents[2] / "docs" / "memorymanager.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (output,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == output


def test_the_functions_named_are_there() -> None:
    table = PAGE[PAGE.index("## What to call") : PAGE.index("## Outcomes")]
    named = set(re.findall(r"`([a-z_]+)`", table))
    assert len(named) > 25
    assert named <= set(api.__all__)


def test_every_outcome_is_explained() -> None:
    table = PAGE[PAGE.index("## Outcomes") : PAGE.index("## Versions")]
    assert set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", table)) == set(api.Outcome)


def test_nothing_is_named_twice_or_missing() -> None:
    assert sorted(api.__all__) == sorted(set(api.__all__))
    assert all(hasattr(api, name) for name in api.__all__)
