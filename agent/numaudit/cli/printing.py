"""Results on standard output: one document with `-o json`, or tables of a host with the line that says which, and of
when."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from numaudit.encoding.value import Origin, Timestamp
from numaudit.kernel.host import Host
from numaudit.kernel.origin import kernel_of, origin_of

if TYPE_CHECKING:
    from rich.console import Console


def json_of_host(kind: str, value: object, host: Host, measured_at: Timestamp | None = None) -> None:
    """A document about a host. Raises InputError when a capture is damaged."""
    write_json(kind, value, origin_of(host, measured_at))


def json_of_no_host(kind: str, value: object) -> None:
    """A document that is about no host, as it is now."""
    write_json(kind, value, Origin(None, Timestamp(time.time())))


def write_json(kind: str, value: object, origin: Origin) -> None:
    """Any other."""
    from numaudit.api import document

    sys.stdout.buffer.write(document.encode(kind, value, origin))


@contextmanager
def table_of_host(host: Host, measured_at: float | None = None) -> Iterator[Console]:
    """The console to print to. Raises InputError when a capture is damaged."""
    from numaudit.views.terminal import terminal

    origin = origin_of(host, measured_at)
    out = terminal.console()
    yield out
    print_origin(origin, host, out)


def print_origin(origin: Origin, host: Host, out: Console) -> None:
    """The line alone."""
    from numaudit.views.terminal import terminal

    terminal.print_origin(origin, kernel_of(host), out, is_capture=not host.is_live)
