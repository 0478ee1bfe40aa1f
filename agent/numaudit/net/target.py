"""Address, headers and credentials of HTTP requests.

Only what is given decides that, and which certificates to trust: no proxy, no .netrc, no redirect.
"""

from __future__ import annotations

import base64
import re
import ssl
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, quote, unquote

from numaudit.errors import InputError

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
