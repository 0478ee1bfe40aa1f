"""Verdicts on the command line."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


class VerdictList(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """Names such as drifted,cpu-remote. Raises InputError for another name, with the one that is nearest."""

    name = "verdicts"

    def __init__(self, of_ranks: bool = False) -> None:
        self.of_ranks = of_ranks
        """Are those of ranks among them?"""

    def _more(self) -> tuple[str, ...]:
        from numaudit.evaluation.ranks.rank import NOT_WHERE_BOUND  # noqa: PLC0415 (takes long)

        return NOT_WHERE_BOUND if self.of_ranks else ()

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        from numaudit.report.gates.demands import read_verdicts  # noqa: PLC0415 (takes long)

        return read_verdicts(str(value), "" if param is None else param.opts[0], self._more())

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The name after the last comma, with those before it."""
        from numaudit.evaluation.verdicts import REMEDIES  # noqa: PLC0415 (takes long)

        before, comma, begun = incomplete.rpartition(",")
        given = before.split(",")
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in ("misaligned", *REMEDIES, *self._more())
            if name.startswith(begun) and name not in given
        ]
