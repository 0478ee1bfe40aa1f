"""Quantities: those of Kubernetes, exact (`4Gi`, `500M`, `250m`, `1e9`); bytes and counts in words for people.

Source: k8s.io/apimachinery/pkg/api/resource/{quantity,suffix,amount,math}.go.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from numaudit.errors import ParseError, cut

Format = Literal["BinarySI", "DecimalSI", "DecimalExponent"]

NANO = 10**9
"""The finest step: a quantity is a whole number of billionths."""
MAX_INT64 = 2**63 - 1

_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([A-Za-z]*[+-]?[0-9]*)", re.ASCII)
_DIGITS = "[0-9](?:_?[0-9])*"
_GO_FLOAT = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,4})", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_LONGEST = 256
_LARGEST_EXPONENT = 100


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount in billionths, and the form in which it is written.

    Kubernetes keeps a quantity either as a 64-bit number with a decimal scale or, where the text
    is too long for that, as an arbitrary-precision decimal. Only the first kind can be read as an
    int64 by the Memory Manager, so `1.5Gi` cannot although it is a whole number of bytes.
    """

    nano: int
    format: Format = "DecimalSI"
    scale: int | None = 0
    """Power of ten of the 64-bit number's unit; None = an arbitrary-precision decimal."""

    @classmethod
    def of(cls, number: int, form: Format = "BinarySI") -> Self:
        """A whole number of bytes, CPUs or pages."""
        return cls(number * NANO, form, 0 if abs(number) <= MAX_INT64 else None)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a quantity as `resource.ParseQuantity` does.

        What is finer than a billionth is rounded away from zero; with a binary suffix what is
        above int64 becomes the largest int64. Raises ParseError; unlike Kubernetes also for a text
        without a digit (which it reads as 0) and for exponents beyond +-100.
        """
        match = _TEXT.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None or not (match[2] or match[3]):
            raise ParseError(f"not a quantity such as 4Gi, 500M or 250m: {cut(text)!r}")
        sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
        exponent, form = _suffix(suffix, text)
        number = int(whole + fraction) * (-1 if sign == "-" else 1)
        places = len(fraction)
        scale = _scale(number, max(1, len(whole.lstrip("0"))), places, exponent, form)
        if form == "BinarySI":
            nano = _away_from_zero(number * NANO << exponent, 10**places)
            nano = max(-MAX_INT64 * NANO, min(nano, MAX_INT64 * NANO)) if scale is None else nano
            if scale is None and 0 < abs(nano) < NANO:
                form = "DecimalSI"
        else:
            power = exponent - places + 9
            nano = number * 10**power if power >= 0 else _away_from_zero(number, 10**-power)
        return cls(nano, form, scale)

    @property
    def as_int64(self) -> int | None:
        """The amount as the Memory Manager reads it; None = `failed to represent quantity as int64`."""
        if self.scale is None or self.scale < 0 or abs(self.nano) > MAX_INT64 * NANO:
            return None
        return self.nano // NANO

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero (`Quantity.Value`)."""
        return _away_from_zero(self.nano, NANO)

    @property
    def milli_value(self) -> int:
        """Thousandths, rounded away from zero (`Quantity.MilliValue`)."""
        return _away_from_zero(self.nano, NANO // 1000)

    def __add__(self, other: Quantity) -> Quantity:
        """The sum; it is written in this one's form, or in the other's where this one is 0."""
        nano = self.nano + other.nano
        form = self.format if self.nano else other.format
        if other.nano == 0:
            scale = self.scale
        elif self.nano == 0:
            scale = other.scale
        elif self.scale is None or other.scale is None:
            scale = None
        else:
            scale = min(self.scale, other.scale)
        if scale is not None and not _fits_int64(nano, scale):
            scale = None
        return Quantity(nano, form, scale)

    def __str__(self) -> str:
        """The canonical form: no fraction, the largest suffix that keeps the number whole."""
        if self.nano == 0:
            return "0"
        if self.format == "BinarySI" and self.nano % NANO == 0 and abs(self.nano) >= 1024 * NANO:
            return _binary(self.nano // NANO)
        return _decimal(self.nano, "DecimalSI" if self.format == "BinarySI" else self.format)


ZERO = Quantity(0)

Quantities = Mapping[str, Quantity]
"""Resource name -> quantity (a `v1.ResourceList`)."""


def total(quantities: Iterable[Quantity]) -> Quantity:
    """The sum, starting from a decimal 0."""
    result = ZERO
    for one in quantities:
        result += one
    return result


def node_allocatable_reservation(
    capacity: Quantities,
    *,
    system_reserved: Quantities,
    kube_reserved: Quantities,
    hard_eviction_memory: str | None,
) -> dict[str, Quantity]:
    """Amounts that the kubelet keeps from pods, by resource; resources that the node lacks and zeros are left out.

    `hard_eviction_memory` is the value of `evictionHard: memory.available`, a quantity or a percentage
    of the memory capacity (kubelet default `100Mi`); None = the signal is not configured.
    Source: pkg/kubelet/cm/{node_container_manager_linux,container_manager_linux}.go.
    """
    result: dict[str, Quantity] = {}
    for name in capacity:
        parts = [system_reserved.get(name, ZERO), kube_reserved.get(name, ZERO)]
        if name == "memory" and hard_eviction_memory is not None:
            parts.append(eviction_threshold(hard_eviction_memory, capacity[name].value))
        amount = total(parts)
        if amount.nano:
            result[name] = amount
    return result


def eviction_threshold(text: str, capacity: int) -> Quantity:
    """A threshold as bytes: a quantity, or a percentage of `capacity` bytes. Raises ParseError.

    The kubelet keeps the percentage as a 32-bit float, so 10 % of 1000 bytes need not be 100, and it
    passes over `0%` and `100%`. Percentages are decimal numbers as Go's strconv.ParseFloat reads them;
    its hexadecimal ones and NaN are refused here.
    Source: pkg/kubelet/eviction/helpers.go, pkg/kubelet/eviction/api/types.go.
    """
    if not text.endswith("%"):
        threshold = Quantity.parse(text)
        if threshold.nano <= 0:
            raise ParseError(f"eviction threshold memory.available must be positive: {threshold}")
        return threshold
    if text in ("0%", "100%"):
        return ZERO
    number = text.rstrip("%")
    if not _GO_FLOAT.fullmatch(number):
        raise ParseError(f"not a percentage such as 5%: {cut(text)!r}")
    percentage = float(number)
    if not 0 <= percentage <= 100:
        raise ParseError(f"a percentage of the capacity is within 0%..100%: {cut(text)!r}")
    return Quantity.of(int(capacity * _float32(_float32(percentage) / 100)))


def _suffix(suffix: str, text: str) -> tuple[int, Format]:
    """The exponent, of 2 for BinarySI and of 10 otherwise."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return _BINARY[suffix], "BinarySI"
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise ParseError(f"unknown suffix {suffix!r} of quantity {cut(text)!r}: use n u m k M G T P E or Ki..Ei")
    exponent = int(match[1])
    if abs(exponent) > _LARGEST_EXPONENT:
        raise ParseError(f"the exponent of quantity {cut(text)!r} is not within +-{_LARGEST_EXPONENT}")
    return exponent, "DecimalExponent"


def _scale(number: int, digits: int, places: int, exponent: int, form: Format) -> int | None:
    """The scale that ParseQuantity keeps, or None where it turns to arbitrary precision.

    `digits` and `places` are the lengths before and after the decimal point.
    """
    if form == "BinarySI":
        # The digits that the power of two takes are estimated, so 10Ti still fits and 100Ti does not.
        room = 15 - digits - exponent * 3 // 10 - 1 if places == 0 else -1
        scale = 0
        fits = abs(number << exponent) <= MAX_INT64
    else:
        room = 18 - digits - places
        scale = exponent - places
        fits = True
    return scale if room >= 0 and scale >= -9 and fits else None


def _fits_int64(nano: int, scale: int) -> bool:
    largest: int = MAX_INT64 * 10 ** (scale + 9)
    return abs(nano) <= largest


def _away_from_zero(number: int, divisor: int) -> int:
    return -(number // -divisor) if number >= 0 else number // divisor


def _binary(number: int) -> str:
    exponent = 0
    while number % 1024 == 0 and exponent < 60:
        number //= 1024
        exponent += 10
    return f"{number}{_BINARY_SUFFIX.get(exponent, '')}"


def _decimal(nano: int, form: Format) -> str:
    exponent = -9
    while nano % 1000 == 0 and (form == "DecimalExponent" or exponent < 18):
        nano //= 1000
        exponent += 3
    if form == "DecimalExponent":
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"


def _float32(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


_UNITS = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def some_of(names: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """The first ones, and how many more: a, b, c and 2 more."""
    return between.join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


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
