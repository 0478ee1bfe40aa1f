"""Standard output and error, whose readers may go; whatever a message names, it cannot steer the terminal, and shows no
password."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from numaudit.errors import hide, is_like_a_url, printable, without_password

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Output(io.FileIO):
    """The file of a standard stream. Once its reader has gone (`| head`) it drops what comes, so that a verb ends with
    its own exit code.
    """

    def __init__(self, descriptor: int, *, is_vital: bool) -> None:
        """`is_vital`: other errors, such as a full disk, are raised; else nobody could be told of them."""
        super().__init__(descriptor, "w", closefd=False)
        self.drops = False
        self._is_vital = is_vital

    def write(self, data: ReadableBuffer, /) -> int:
        if not self.drops:
            try:
                return super().write(data)
            except OSError as error:
                if self._is_vital and not isinstance(error, BrokenPipeError):
                    raise
                self.drops = True
        return memoryview(data).nbytes


def program() -> str:
    """The word that runs this program when it is pasted: its name, or its path where no PATH has it."""
    import shlex
    import shutil

    started, name = Path(sys.argv[0]), "numaudit"
    return name if started.name != name or shutil.which(name) is not None else shlex.quote(str(started))


def drop_the_rest(stream: TextIO) -> None:
    """Python would write it when it ends, fail again, and complain."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    if isinstance(raw, Output):
        raw.drops = True


class Messages:
    """A text stream that shows control characters other than line ends as escapes.

    Secrets in URLs are hidden, also where click repeats words of the command line as they were typed.
    Names in messages are other people's: of cgroups, of files, in a checkpoint. It has no `buffer`, since click would
    write past it.
    """

    def __init__(self, stream: TextIO, arguments: Sequence[str] = ()) -> None:
        self.stream = stream
        self._hidden = dict(_secret_words(arguments))

    def write(self, text: str) -> int:
        length = len(text)
        for word, shown in self._hidden.items():
            text = text.replace(word, shown)
        self.stream.write("\n".join(printable(without_password(line)) for line in text.split("\n")))
        return length

    def __getattr__(self, name: str) -> object:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.stream, name)


def _secret_words(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each value with something to hide, alone or after `=` or `-f`, as it is or in quotes, and what is shown of it."""
    for argument in arguments:
        for value in (argument, argument.partition("=")[2], argument[2:]):
            shown = hide(value)
            if shown != value and is_like_a_url(value):
                yield value, shown
                yield value.strip(), shown
                yield repr(value.strip())[1:-1], shown


def terminal() -> TextIO:
    """Standard error without escaping, for output that steers the terminal."""
    return sys.stderr.stream if isinstance(sys.stderr, Messages) else sys.stderr


def say(error: Exception) -> None:
    """One message on standard error; of a refusal, a line for each part."""
    text = str(error)
    if isinstance(error, OSError):
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    lines = text.split("\n")
    click.echo("\n".join((f"numaudit: {printable(lines[0])}", *(f"  {printable(one)}" for one in lines[1:]))), err=True)


def wait(seconds: float, what: str) -> None:
    """Sleep. A terminal sees what for and how long still; a pipe sees nothing."""
    end = time.monotonic() + seconds
    stderr = terminal()
    shown = False
    try:
        while (left := end - time.monotonic()) > 0:
            if stderr.isatty():
                print(f"\r{what}: {left:.0f} s left ", end="", file=stderr, flush=True)
                shown = True
            time.sleep(min(1.0, left))
    finally:
        if shown:
            print("\r\033[K", end="", file=stderr, flush=True)
