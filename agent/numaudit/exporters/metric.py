"""One row of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, Literal, TypeVar

from msgspec import Struct

PREFIX = "numaudit_"
OTHER = "other"
"""Label value of what is added up beside the largest."""
IDENTITY = ("namespace", "pod", "container")
"""The labels that every container series begins with."""

Subject = TypeVar("Subject")
Number = int | float
Values = Iterable[tuple[tuple[str, ...], Number]]
"""Label values (in the order of the row's labels) and the number."""
Since = Literal["container", "boot", "agent"]


@lru_cache(maxsize=2048)
def _shared(labels: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """One tuple for all equal ones: with one for each container and family an agent of 1,000 takes 5 MiB more."""
    return labels


class Columns(Struct, frozen=True, gc=False):
    """Values as two columns. Equal label values are one object, for many subjects have the same in every tick."""

    labels: tuple[tuple[str, ...], ...] = ()
    numbers: tuple[Number, ...] = ()

    @classmethod
    def of(cls, values: Values) -> Columns:
        """The values themselves where they are columns already."""
        if isinstance(values, Columns):
            return values
        if not values:
            return NO_VALUES  # most families have nothing of most containers
        columns = tuple(zip(*values, strict=True))
        return cls.of_equal(*columns) if columns else NO_VALUES

    @classmethod
    def of_equal(cls, labels: tuple[tuple[str, ...], ...], numbers: tuple[Number, ...]) -> Columns:
        """Columns of the same length."""
        return cls(_shared(labels), numbers) if numbers else NO_VALUES

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Number]]:
        return zip(self.labels, self.numbers, strict=True)


NO_VALUES = Columns()


_UCUM = {"bytes": "By", "seconds": "s", "ratio": "1"}
_SUBJECTS = ("memory_manager",)
"""Subjects of more than one word."""


class Metric(Struct, Generic[Subject], frozen=True):
    """One family. `name` is without prefix and, for a counter, with its `_total`."""

    name: str
    unit: Literal["bytes", "seconds", "ratio", ""]
    help: str
    labels: tuple[str, ...]
    values: Callable[[Subject], Values]
    since: Since | None = None
    """Start of the count of a counter. None = a gauge."""
    merged: Literal["sum", "max"] | None = "sum"
    """Operation that merges series when labels are filtered out. None = they cannot, and the family is left out."""
    item: str = ""
    """Singular noun of the items that a family without a unit counts; empty = none, for a state or a fact."""
    otel: str = ""
    """The OpenTelemetry name where it does not follow from `name`."""
    largest: int | None = None
    """Largest number of series of a container: those with the largest values; the others are added up (`rest`). None =
    all there are."""
    is_standard: bool = False
    """A name that every exporter of Prometheus gives the same thing, without our prefix; pushed if it has `otel`."""

    @property
    def full_name(self) -> str:
        """Name in Prometheus."""
        return self.name if self.is_standard else PREFIX + self.name

    @property
    def is_counter(self) -> bool:
        return self.since is not None

    @property
    def is_info(self) -> bool:
        """Are these facts, whose number is always 1? OpenMetrics has a type for them."""
        return self.name.endswith("_info")

    @property
    def is_pushed(self) -> bool:
        """Does OpenTelemetry have it, too?"""
        return not self.is_standard or bool(self.otel)

    def rest(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """The labels of the series that a point is added to when it is none of the largest."""
        return tuple(value if name == "locality" else OTHER for name, value in zip(self.labels, labels, strict=True))

    @property
    def adds_up(self) -> bool:
        """Is this a gauge whose values over all labels have a sum that means something?"""
        return not self.is_counter and self.merged == "sum" and (self.unit == "bytes" or bool(self.item))

    @property
    def ucum(self) -> str:
        """The unit in OpenTelemetry: of UCUM, with what is counted as its annotation.

        A state does not have the unit 1, for Prometheus and others would append `_ratio` to its name.
        """
        return _UCUM[self.unit] if self.unit else f"{{{self.item or 'state'}}}"

    @property
    def family(self) -> str:
        """The name that OpenMetrics gives the family: without a counter's `_total` and the `_info` of facts."""
        return self.full_name.removesuffix("_total").removesuffix("_info")

    @property
    def instrument(self) -> str:
        """The OpenTelemetry name: a dot behind the subject, and no unit, which is a field of its own there."""
        if self.otel:
            return self.otel
        name = self.name.removesuffix("_total")
        # A ratio may have a sibling in bytes, and only its suffix keeps the two apart.
        name = name if self.unit in ("", "ratio") else name.removesuffix(f"_{self.unit}")
        subject = next((one for one in _SUBJECTS if name.startswith(one)), name.partition("_")[0])
        rest = name.removeprefix(subject).removeprefix("_")
        return f"numaudit.{subject}.{rest}" if rest else f"numaudit.{subject}"


class Label(Struct, frozen=True):
    """One label, and the attribute that stands for it in OpenTelemetry."""

    attribute: str
    help: str
    integer: bool = False


def word(name: str) -> str:
    """A name of a closed set as the value of a label: without blanks, which queries would have to quote and escape."""
    return name.replace(" ", "-")


_NO_LABELS = ((),)


def one(value: Callable[[Subject], Number | None]) -> Callable[[Subject], Values]:
    """The values of a family of one series, absent while its value is None."""

    def values(subject: Subject) -> Values:
        found = value(subject)
        return () if found is None else Columns(_NO_LABELS, (found,))

    return values
