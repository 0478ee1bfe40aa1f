"""Plain values, as from YAML or JSON that was read already, with errors that say where: the path, and of a file also
its name and line."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from msgspec import Struct

from numaudit.errors import InputError, ParseError, nearest
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


class LocatedError(InputError):
    """An InputError that names its place already."""


def _no_line(_path: str) -> int | None:
    return None


class Document(Struct, frozen=True):
    """One file that was read, or a part of one."""

    name: str
    """The file, as messages call it."""
    value: object
    line_of: Callable[[str], int | None] = _no_line
    """Path such as `steps[2].admit` -> its line, or that of the nearest thing around it; None = not known."""
    path: str = ""
    """Path of the value in the file; empty = the whole file."""
    is_file: bool = False
    """Is it a file of its own, and not written for numaudit?"""

    def part(self, key: str | int) -> Document:
        """One field of a mapping, or one element of a list; None where it is absent."""
        value = self.value[key] if isinstance(self.value, list) and isinstance(key, int) else self._field(key)
        return Document(self.name, value, self.line_of, self.path_of(key))

    def _field(self, key: str | int) -> object:
        return self.value.get(key) if isinstance(self.value, Mapping) else None

    def path_of(self, key: str | int) -> str:
        if isinstance(key, int):
            return f"{self.path}[{key}]"
        return f"{self.path}.{key}" if self.path else key

    def fields(self, known: Collection[str]) -> Mapping[str, object]:
        """The fields of a mapping. Raises InputError for one that is not known, with the names that are near."""
        with self.located():
            fields = read_mapping(self.value, "")
        for name in fields:
            if name not in known:
                but = f"; it has {', '.join(known)}"
                raise self.part(name).error(f"unknown field{nearest(name, known, but)}")
        return fields

    def elements(self) -> Iterator[Document]:
        """The elements of a list; none where it is absent."""
        if self.value is None:
            return
        if not isinstance(self.value, list):
            raise self.error(f"must be a list, not {type(self.value).__name__}")
        for index in range(len(self.value)):
            yield self.part(index)

    def error(self, reason: str) -> LocatedError:
        """`file:line: path: reason`"""
        line = self.line_of(self.path)
        place = self.name if line is None else f"{self.name}:{line}"
        return LocatedError(f"{place}: {self.path}: {reason}" if self.path else f"{place}: {reason}")

    @contextmanager
    def located(self) -> Iterator[None]:
        """Errors about this value get file, line and path; one that begins with a path inside keeps it."""
        try:
            yield
        except LocatedError:
            raise
        except InputError as error:
            raise self._place(f"{error.field}: {error}" if error.field else str(error)) from None

    def _place(self, message: str) -> LocatedError:
        inner, colon, reason = message.partition(": ")
        if colon and inner and " " not in inner:
            path = f"{self.path}.{inner}" if self.path else inner
            return Document(self.name, None, self.line_of, path).error(reason)
        return self.error(message.removeprefix(": "))
