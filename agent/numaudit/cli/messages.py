"""Standard error: whatever a message names, it cannot steer the terminal."""

from __future__ import annotations

import sys
from typing import TextIO

from numaudit.errors import printable


class Messages:
    """A text stream that shows control characters other than line ends as escapes.

    Names in messages are other people's: of cgroups, of files, in a checkpoint. It has no `buffer`, since click would
    write past it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write("\n".join(map(printable, text.split("\n"))))
        return len(text)

    def __getattr__(self, name: str) -> object:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.stream, name)


def terminal() -> TextIO:
    """Standard error without escaping, for output that steers the terminal."""
    return sys.stderr.stream if isinstance(sys.stderr, Messages) else sys.stderr
