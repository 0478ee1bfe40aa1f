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


def exact(value: int) -> str:
    """Bytes in binary units, with the bytes where the units round: 1G, 1006.3M (1055182848 bytes), 9 bytes.

    For amounts that a kubelet compares to the byte.
    """
    unit = next((unit for unit, _ in _UNITS if abs(value) >= unit), 1)
    if unit == 1:
        return f"{value} bytes"
    return f"{in_units(value)} ({value} bytes)" if value % unit else in_units(value)
