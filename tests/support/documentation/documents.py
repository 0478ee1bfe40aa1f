"""What a document says apart from when and by which version it was made, and how long that took."""

from __future__ import annotations

import json
from typing import Any

TIMES = {"takenAt", "seconds", "writtenAt", "lastGoodAt", "since"}
_POINT = "1970-01-01T00:00:00.000Z"


def without_times(text: str) -> dict[str, Any]:
    """The document, with 1970 for every point of time that is known, and 0 for periods and the program's version."""
    document: dict[str, Any] = json.loads(text, object_hook=_stopped)
    document["generator"]["version"] = "0"
    return document


def _stopped(part: dict[str, Any]) -> dict[str, Any]:
    return {key: _stop(value) if key in TIMES and value is not None else value for key, value in part.items()}


def _stop(time: float | str) -> float | str:
    return _POINT if isinstance(time, str) else 0
