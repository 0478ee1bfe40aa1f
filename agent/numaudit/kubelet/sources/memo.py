"""Work that is done again only when its inputs changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

from msgspec import Struct

P = ParamSpec("P")
R = TypeVar("R")


class Inputs(Struct):
    """The inputs of the last call. They are values, never changed in place."""

    _last: tuple[object, ...] | None = None

    def changed(self, *inputs: object) -> bool:
        """Does one of them differ from the last time? The same object is not even compared. True at the first time."""
        before, self._last = self._last, inputs
        return before != inputs


class Memo(Generic[P, R]):
    """A pure function that keeps its last result and gives it again for the same inputs."""

    __slots__ = ("_function", "_inputs", "_result")

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self._inputs = Inputs()
        self._result: tuple[R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._inputs.changed(args, kwargs):
            self._result = None
        if self._result is None:
            self._result = (self._function(*args, **kwargs),)
        return self._result[0]
