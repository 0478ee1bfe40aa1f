"""Files that a connection needs, as somebody named them: authorities, certificates, keys, tokens.

Whoever opens a pipe without a writer waits for ever, and a device may never end. So they are regular files.
"""

from __future__ import annotations

import errno
import ssl
import stat
from pathlib import Path

LARGEST = 16 << 20


def check_regular(path: Path) -> None:
    """Before a library opens it. Raises OSError, also for a file of more than LARGEST bytes."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if status.st_size > LARGEST:
        raise OSError(errno.EOVERFLOW, f"the file is larger than {LARGEST} bytes", str(path))


def read_text(path: Path) -> str:
    """The whole file as UTF-8; other bytes become U+FFFD. Raises OSError as `check_regular` does."""
    check_regular(path)
    with path.open("rb") as file:
        return file.read(LARGEST).decode("utf-8", "replace")


def tls_context(authorities: Path | None) -> ssl.SSLContext:
    """A client that trusts the authorities in this file (PEM) alone; None = the system's.

    Raises OSError as `check_regular` does, and SSLError for a file without any.
    """
    if authorities is not None:
        check_regular(authorities)
    return ssl.create_default_context(cafile=authorities)
