"""A table of a host on standard output, with the line that says which host, and of when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from numaudit.encoding.value import Origin
from numaudit.kernel.host import Host
from numaudit.kernel.origin import kernel_of, origin_of
from numaudit.views.terminal import terminal


@contextmanager
def of_host(host: Host, measured_at: float | None = None) -> Iterator[Console]:
    """The console to print to. Raises InputError when a capture is damaged."""
    origin = origin_of(host, measured_at)
    out = terminal.console()
    yield out
    print_origin(origin, host, out)


def print_origin(origin: Origin, host: Host, out: Console) -> None:
    """The line alone."""
    terminal.print_origin(origin, kernel_of(host), out, is_capture=not host.is_live)
