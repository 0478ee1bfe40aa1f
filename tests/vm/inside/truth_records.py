"""What a trial whose truth is known has shown: a line of JSON on stdout, which tests/vm/truth.py keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

MARK = "record | "


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure at one moment."""

    truth: float
    reported: float


def write(figure: str, workload: str, unit: str, found: Sequence[Comparison], false: Sequence[str] = ()) -> None:
    """`false`: statements that were not true, beyond what the trial allows."""
    record = {
        "figure": figure,
        "workload": workload,
        "unit": unit,
        "count": len(found),
        "truth": _range([one.truth for one in found]),
        "reported": _range([one.reported for one in found]),
        "above": max((one.reported - one.truth for one in found), default=None),
        "below": max((one.truth - one.reported for one in found), default=None),
        "false": list(false),
    }
    print(f"{MARK}{json.dumps(record)}", flush=True)


def _range(values: Sequence[float]) -> list[float] | None:
    return [min(values), max(values)] if values else None
