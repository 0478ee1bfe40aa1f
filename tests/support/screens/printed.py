"""Parts of what a report prints."""

from __future__ import annotations


def table_of(text: str, first: str = "CONTAINER") -> list[str]:
    """The lines of the table whose titles begin so, and the notes right below it."""
    return next(part for part in text.split("\n\n") if part.startswith(first)).splitlines()
