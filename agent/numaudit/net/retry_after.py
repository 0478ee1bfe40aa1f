"""Wait that a server asks for before the next request (Retry-After).

Source: RFC 9110, section 10.2.3.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime

LONGEST_WAIT = 300.0
"""Seconds that a server may ask to wait. One wrong answer then leaves a gap that alerts and dashboards survive, and a
server that is really busy gets one request in five minutes.
"""


def retry_after(text: str, now: float) -> float | None:
    """Seconds to wait, given as such or as a date (`now`: seconds since the epoch); None = it does not say."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:10])
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), LONGEST_WAIT)
