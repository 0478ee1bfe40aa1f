"""Memory bandwidth monitoring (resctrl): does total - local give the remote part?

Source: the kernel's Documentation/filesystems/resctrl.rst (mbm_total_bytes_config).
"""

from __future__ import annotations

import re

_VICTIMS = 1 << 6
"""Dirty lines that leave the cache, for memory of any node."""
_DOMAIN = re.compile(r"\d{1,9}=(0x[0-9a-fA-F]{1,8})", re.ASCII)


def parse_config(text: str) -> tuple[int, ...]:
    """Event bits of each L3 domain, by mbm_total_bytes_config (`0=0x7f;1=0x7f`). Other text is left out."""
    matches = (_DOMAIN.fullmatch(part.strip()) for part in text.split(";"))
    return tuple(int(match[1], 16) for match in matches if match is not None)


def remote_is_total_less_local(vendor: str | None, total: tuple[int, ...]) -> bool:
    """On Intel always. On AMD only where no domain counts victims as total, which has to be configured.

    `total`: as `parse_config` gives it; empty = it cannot be configured, so it is as by default.
    """
    if vendor == "GenuineIntel":
        return True
    return vendor == "AuthenticAMD" and bool(total) and not any(one & _VICTIMS for one in total)
