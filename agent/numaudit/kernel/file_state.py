"""Detection of changed files, by their identity, size and times. Costs a microsecond for each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def state_of(files: Iterable[Path]) -> tuple[object, ...]:
    """Differs from an earlier one when one of the files has changed, was replaced, went or came.

    Links are followed: a ConfigMap's volume changes by a link to another folder.
    """
    states: list[object] = []
    for file in files:
        try:
            status = os.stat(file)  # noqa: PTH116 (at every request: several times quicker)
            states.append((status.st_mtime_ns, status.st_ino, status.st_size))
        except OSError as error:
            states.append(error.errno)
    return tuple(states)
