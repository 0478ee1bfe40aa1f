"""Bytes and counts in words for people."""

from __future__ import annotations

_UNITS = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def plural(number: float, what: str) -> str:
    """1 pod, 3 pods."""
    return f"{number:g} {what}{'' if number == 1 else 's'}"


def in_units(value: int) -> str:
    """Bytes in binary units, one decimal below 100: 1.5Gi, 50.1Mi, 4Ki, 0."""
    for unit, letters in _UNITS:
        if abs(value) >= unit:
            amount = round(value / unit, 1)
            return f"{amount:.1f}{letters}" if abs(amount) < 100 and value % unit else f"{amount:.0f}{letters}"
    return str(value)


def at_most(value: int) -> str:
    """The same, rounded down: a request for this much is no larger than `value`, which is 0 or more."""
    for unit, letters in _UNITS:
        if value >= unit:
            tenths = value * 10 // unit
            return f"{tenths / 10:.1f}{letters}" if tenths < 1000 and value % unit else f"{tenths // 10}{letters}"
    return str(value)


def exact(value: int) -> str:
    """Bytes in binary units, with the bytes where the units round: 1Gi, 1006Mi (1055182848 bytes), 9 bytes.

    For amounts that a kubelet compares byte for byte.
    """
    unit = next((unit for unit, _ in _UNITS if abs(value) >= unit), 1)
    if unit == 1:
        return f"{value} bytes"
    return f"{in_units(value)} ({value} bytes)" if value % unit else in_units(value)
