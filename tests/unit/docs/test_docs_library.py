"""The Python examples of the documents print what the pages say, and their tables have each function and annotation."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from numaudit.memorymanager import api
from numaudit.nrt.resource_topology import KEYS, MOST_BYTES, PREFIX
from screens.pages import TOP

PAGE = (Path(__file__).parents[3] / "docs" / "memorymanager.md").read_text(encoding="utf-8")
CALLS = PAGE[PAGE.index("## What to call") : PAGE.index("## Versions")]


def row(name: str, function: Callable[..., object]) -> str:
    """The line of a function: the first line of its docstring. Its help has parameters and types."""
    meaning = (inspect.getdoc(function) or "").partition("\n")[0].replace("|", "\\|")
    return f"| `{name}` | {meaning} |"


def test_the_example_prints_what_the_page_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (output,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == output


def test_each_function_of_the_table_has_its_meaning() -> None:
    lines = [line for line in CALLS.splitlines() if line.startswith("| `")]
    assert len(lines) > 5
    assert lines == [row(name, getattr(api, name)) for line in lines for name in [line.split("`")[1]]]


SCHEDULERS = (TOP / "docs/integrations/schedulers.md").read_text(encoding="utf-8")


def test_the_cases_of_kai_scheduler_come_out_as_the_page_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", SCHEDULERS, re.DOTALL)
    (output,) = re.findall(r"```text\n(.*?)```", SCHEDULERS, re.DOTALL)
    with_the_filter = {**os.environ, "PYTHONPATH": str(TOP / "tests/support")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=with_the_filter
    )
    assert done.stderr == ""
    assert done.stdout == output


def test_the_table_has_every_annotation() -> None:
    listed = re.findall(rf"^\| `({re.escape(PREFIX)}[\w-]+)` \|", SCHEDULERS, re.MULTILINE)
    assert sorted(listed) == sorted(KEYS)
    assert f"at most {MOST_BYTES >> 10} KiB" in SCHEDULERS
