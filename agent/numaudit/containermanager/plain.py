"""Plain values, as from YAML or JSON that was read already, with errors that say where."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from numaudit.errors import InputError, ParseError
from numaudit.topology.quantity import Quantity

_MOST_BITS = 1000
"""Of a whole number that is taken for a quantity."""


def read_quantity(value: object, where: str) -> Quantity:
    """A quantity that is not negative. Raises InputError that says where."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{where}: must be a quantity such as 4Gi or 500m, not {shown(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where}: must be a finite quantity, not {shown(value)}")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise InputError(f"{where}: must be a quantity such as 4Gi or 500m, not {shown(value)}")
    try:
        quantity = Quantity.parse(str(value).strip())
    except ParseError as error:
        raise InputError(f"{where}: {error}") from None
    if quantity.nano < 0:
        raise InputError(f"{where}: must not be negative: {shown(value)}")
    return quantity


def read_any_mapping(value: object, where: str) -> Mapping[object, object]:
    """A mapping. Raises InputError that says where."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: must be a mapping, not {_kind(value)}")
    return value


def read_mapping(value: object, where: str) -> Mapping[str, object]:
    """A mapping with text keys. Raises InputError that says where."""
    for key in read_any_mapping(value, where):
        if not isinstance(key, str):
            raise InputError(f"{where}: field names must be text, not {shown(key)}")
    return cast("Mapping[str, object]", value)


def read_sequence(value: object, where: str) -> Sequence[object]:
    """A list. Raises InputError that says where."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(f"{where}: must be a list, not {_kind(value)}")
    return value


def read_text(value: object, where: str) -> str:
    """Text that is not empty. Raises InputError that says where."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: must be text that is not empty, not {_kind(value)}")
    return value


def given(fields: Mapping[str, object], name: str, default: object) -> object:
    """A field's value; null stands for an absent field, as in Kubernetes."""
    value = fields.get(name)
    return default if value is None else value


def shown(value: object) -> str:
    """A value as an error shows it. Python refuses to write whole numbers of more than 4300 digits."""
    try:
        return repr(value)
    except ValueError:
        return "a number of more than 4300 digits"


def _kind(value: object) -> str:
    return "absent" if value is None else type(value).__name__
