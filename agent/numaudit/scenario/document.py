"""A file as plain values that still knows the line of each of them, so that errors name file, line and path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from numaudit.containermanager.plain import read_mapping
from numaudit.errors import InputError, nearest


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
