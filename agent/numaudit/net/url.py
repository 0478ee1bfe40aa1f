"""URLs of servers, as users give them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

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
