"""`-o json`: one document on standard output."""

from __future__ import annotations

import sys
import time

from numaudit.api import document
from numaudit.encoding.value import Origin, Timestamp
from numaudit.kernel.host import Host
from numaudit.kernel.origin import origin_of


def of_host(kind: str, value: object, host: Host, measured_at: Timestamp | None = None) -> None:
    """A document about a host. Raises InputError when a capture is damaged."""
    write(kind, value, origin_of(host, measured_at))


def of_no_host(kind: str, value: object) -> None:
    """A document that is about no host, as it is now."""
    write(kind, value, Origin(None, Timestamp(time.time())))


def write(kind: str, value: object, origin: Origin) -> None:
    """Any other."""
    sys.stdout.buffer.write(document.encode(kind, value, origin))
