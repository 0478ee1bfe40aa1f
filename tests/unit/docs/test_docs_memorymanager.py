"""The example in docs/memorymanager.md runs and prints what the page says; its table has their meanings."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from numaudit.memorymanager import api

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
