"""Checked-in JSON: one value a line where it fits, so that a file is short and a diff shows what changed."""

from __future__ import annotations

import json
import sys

WIDTH = 120


def written(value: object, *, lists: int = sys.maxsize) -> str:
    """JSON in which only what is wider than 120 columns is broken into lines.

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
    return first + inner + f",{inner}".join(rows) + "\n" + " " * depth + last
