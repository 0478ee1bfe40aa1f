"""Trials whose truth is known, as tests/vm/truth.py keeps them: tests/vm/truth.json."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numaudit import __version__

FILE = Path(__file__).resolve().parents[2] / "vm/truth.json"
MARK = "record | "
"""As inside/truth_records.py prints it."""

Record = Mapping[str, Any]


class Records(io.TextIOBase):
    """Passes lines on to stdout, but for records, which it keeps."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line.startswith(MARK):
                self.found.append(json.loads(line.removeprefix(MARK)))
            else:
                print(line, flush=True)
        return len(text)

    def flush(self) -> None:
        """The rest of a line waits for its end."""


def keep(found: Sequence[Record], series: str, release: str, file: Path = FILE) -> None:
    """These trials, instead of those of the same figures, workloads and kernel."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    new = [{"kernel": series, "release": release, "day": day, "version": __version__, **one} for one in found]
    replaced = {_key(one) for one in new}
    old = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    kept = sorted([*(one for one in old if _key(one) not in replaced), *new], key=_key)
    lines = ",\n".join(json.dumps(one) for one in kept)
    file.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _key(one: Record) -> tuple[str, str, str]:
    return one["kernel"], one["figure"], one["workload"]
