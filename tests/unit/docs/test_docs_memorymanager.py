"""The example in docs/memorymanager.md runs and prints what the page says; its tables list the stable functions."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

from numaudit.memorymanager import api

PAGE = (Path(__file__).parents[3] / "docs" / "memorymanager.md").read_text(encoding="utf-8")
CALLS = PAGE[PAGE.index("## What to call") : PAGE.index("## Outcomes")]
STABLE = [name for name in vars(api) if not name.startswith("_")]


def stable_functions() -> Iterator[tuple[str, FunctionType]]:
    """Name as a caller writes it, function: those of the page's three modules."""
    for name in STABLE:
        value = getattr(api, name)
        if is_function(value):
            yield name, inspect.unwrap(value)
        elif isinstance(value, ModuleType):
            for inner, function in vars(value).items():
                if isinstance(function, FunctionType) and function.__module__ == value.__name__ and inner[0] != "_":
                    yield f"{name}.{inner}", function


def is_function(value: object) -> bool:
    """Also one whose answers are remembered."""
    return callable(value) and isinstance(inspect.unwrap(value), FunctionType)


def row(name: str, function: FunctionType) -> str:
    """The line of a function: the first line of its docstring. Its help has parameters and types."""
    meaning = (inspect.getdoc(function) or "").partition("\n")[0].replace("|", "\\|")
    return f"| `{name}` | {meaning} |"


FUNCTIONS = dict(stable_functions())


def test_the_example_prints_what_the_page_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (output,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == output


def test_each_stable_function_is_listed_once_and_nothing_else_is() -> None:
    single_steps = CALLS.partition("### Single steps\n")[2].partition("\n#")[0]
    in_lists = re.findall(r"`([a-z]\w+)`", single_steps)
    in_tables = re.findall(r"^\| `([\w.]+)` \|", CALLS, re.MULTILINE)
    assert sorted(in_lists + in_tables) == sorted(FUNCTIONS)
    assert len(FUNCTIONS) > 70


def test_each_function_of_a_table_has_its_meaning() -> None:
    lines = [line for line in CALLS.splitlines() if line.startswith("| `")]
    assert len(lines) > 25
    assert lines == [row(name, FUNCTIONS[name]) for line in lines for name in [line.split("`")[1]]]
