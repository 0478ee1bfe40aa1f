"""Checked-in JSON: a file is short, and a diff shows what changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

WIDTH = 120


def written(value: object, *, lists: int = sys.maxsize) -> str:
    """JSON in which only what is wider than 120 columns is broken, into one value a line or full lines of plain ones.

    `lists` is how many lists inside of each other are broken at most; an item of the last is one line, however wide.
    """
    return _written(value, 0, 0, lists) + "\n"


def _written(value: object, depth: int, before: int, lists: int) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if not lists or not isinstance(value, dict | list) or depth + before + len(line) < WIDTH:
        return line
    if isinstance(value, list):
        rows, first, last = [_written(one, depth + 1, 0, lists - 1) for one in value], "[", "]"
    else:
        keys = {json.dumps(key, ensure_ascii=False) + ": ": one for key, one in value.items()}
        rows, first, last = [key + _written(one, depth + 1, len(key), lists) for key, one in keys.items()], "{", "}"
    inner = "\n" + " " * (depth + 1)
    parts = value if isinstance(value, list) else value.values()
    if not any(isinstance(part, dict | list) for part in parts):
        rows = _full_lines(rows, WIDTH - depth - 1)
    return first + inner + f",{inner}".join(rows) + "\n" + " " * depth + last


def _full_lines(rows: Iterable[str], width: int) -> list[str]:
    lines = [""]
    for row in rows:
        if lines[-1] and len(lines[-1]) + len(", ") + len(row) >= width:
            lines.append("")
        lines[-1] += f", {row}" if lines[-1] else row
    return lines
