"""Variables of an environment that the table of launchers knows. All others are dropped at once: they hold secrets."""

from __future__ import annotations

from collections.abc import Mapping

from numaudit.ranks.launcher import Keep

LONGEST_VALUE = 8192


def kept(raw: bytes, keys: Mapping[str, Keep]) -> dict[str, str]:
    """`raw`: /proc/PID/environ, or a beginning of it. Of two variables of one name the first counts: getenv(3)."""
    found: dict[str, str] = {}
    for one in raw.split(b"\0"):
        name, equals, value = one.partition(b"=")
        key = name.decode("ascii", "replace") if equals and len(name) < 64 else ""
        keep = keys.get(key)
        if keep is None or key in found or len(value) > LONGEST_VALUE or not value.isascii():
            continue
        text = keep(value.decode("ascii"))
        if text is not None:
            found[key] = text
    return found
