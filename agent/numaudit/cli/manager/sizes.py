"""Sizes on the command line."""

from __future__ import annotations

import click

from numaudit.errors import ParseError, brief
from numaudit.topology.quantity import Quantity

_LARGEST = (1 << 63) - 1


class Size(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A Kubernetes quantity of bytes: 512Mi, 5Gi."""

    name = "size"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            size = Quantity.parse(str(value).strip()).value
        except ParseError:
            size = -1
        if not self.least <= size <= _LARGEST:
            self.fail(f"{brief(str(value))!r} is not a size such as 512Mi or 5Gi", param, ctx)
        return size
