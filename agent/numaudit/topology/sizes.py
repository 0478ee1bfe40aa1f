"""Bytes in words for people."""

from __future__ import annotations

_UNITS = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def in_units(value: int) -> str:
    """Bytes in binary units, one decimal below 100: 1.5G, 50.1M, 4K, 0."""
    for unit, letter in _UNITS:
        if abs(value) >= unit:
            amount = round(value / unit, 1)
            return f"{amount:.1f}{letter}" if abs(amount) < 100 and value % unit else f"{amount:.0f}{letter}"
    return str(value)
