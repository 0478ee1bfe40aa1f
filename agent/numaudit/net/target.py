"""URLs, headers, credentials and files of HTTP requests, and the wait that an answer asks for.

Only what is given decides that, and which certificates to trust: no proxy, no .netrc, no redirect.
"""

from __future__ import annotations

import base64
import errno
import re
import ssl
import stat
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit

from numaudit.errors import InputError

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


LONGEST_WAIT = 300.0
"""Seconds that a server may ask to wait. One wrong answer then leaves a gap that alerts and dashboards survive, and a
server that is really busy gets one request in five minutes.
"""


def retry_after(text: str, now: float) -> float | None:
    """Seconds to wait, given as such or as a date (`now`: seconds since the epoch); None = it does not say.

    Source: RFC 9110, section 10.2.3.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:10])
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), LONGEST_WAIT)


_LAST_PORT = 65535


def parse_url(text: str) -> SplitResult:
    """An http:// or https:// URL that can be asked. Raises ValueError that says why not, without any part of it.

    Its host can be looked up: each label of it has a form in DNS (RFC 5891), of 63 letters at most.
    """
    if " " in text:
        raise ValueError("it has a space; write %20 for one in a user, a password or a path")
    if not text.isprintable():
        raise ValueError("it has a character that cannot be printed")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError("its host is not a host name or an IP address") from None
    if parts.scheme not in ("http", "https") or "://" not in text:
        raise ValueError("it does not begin with http:// or https://")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"its port is not a number from 1 to {_LAST_PORT}")
    if not parts.hostname:
        raise ValueError("it has no host")
    try:
        parts.hostname.encode("idna")
    except UnicodeError:
        raise ValueError("its host has a part that is empty, longer than 63 letters or not allowed in DNS") from None
    return parts


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class Target:
    """Address, headers and credentials of requests."""

    host: str
    port: int
    path: str
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None

    def __str__(self) -> str:
        """Without user, password and query, which may be secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}{self.path.partition('?')[0]}"


def target_of(url: SplitResult, path: str, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> Target:
    """A path and the query of a URL; its user and password are sent unless there is an Authorization already."""
    sent = dict(headers)
    if url.username is not None and "authorization" not in map(str.lower, headers):
        sent["Authorization"] = basic_authorization(unquote(url.username), unquote(url.password or ""))
    query = f"?{quote(url.query, safe=string.punctuation)}" if url.query else ""
    path = quote(path, safe=string.punctuation) + query
    port = url.port or (80 if tls is None else 443)
    return Target(url.hostname or "", port, path, sent, tls)


def basic_authorization(user: str, password: str) -> str:
    """The value of the header (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def check_headers(headers: Mapping[str, str], where: str) -> None:
    """Raise InputError for a header that cannot be sent; its value, which may be secret, is not shown."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InputError(f"{where}: {name!r} has a character that no HTTP header can have; remove it")
