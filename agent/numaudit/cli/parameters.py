"""Types of values on the command line, and how a shell completes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from numaudit.errors import NumauditError, ParseError, brief
from numaudit.kernel.host import Host
from numaudit.topology.quantity import Quantity

if TYPE_CHECKING:
    from numaudit.snapshot import Container


_PLAIN = re.compile(r"[\w@%+:,./][\w@%+=:,./-]*", re.ASCII)
"""Every shell takes these as they are. A leading dash is an option; after = zsh puts a command's path."""


class ContainerName(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A pod, namespace/pod, pod/container, container or cgroup. A report finds it, or says that it is not there."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        namespace = ctx.params.get("namespace")
        containers = [one for one in _running(ctx) if namespace is None or one.namespace == namespace]
        names = _paths if incomplete.startswith("/") else _names
        return _beginning(incomplete, (name for one in containers for name in names(one)))


class NamespaceName(click.ParamType):  # type: ignore[type-arg]
    """A Kubernetes namespace of a pod on this host."""

    name = "namespace"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _beginning(incomplete, (one.namespace for one in _running(ctx) if one.namespace is not None))


def _running(ctx: click.Context) -> tuple[Container, ...]:
    """By a walk over the cgroups, without asking the kubelet; none where they cannot be read."""
    from numaudit.containers.inventory import Inventory  # (for the completion of names only)
    from numaudit.kernel.cgroup import find_hierarchies

    root = ctx.params.get("root")
    if root is not None and not Path(root).is_dir():
        return ()  # an archive takes too long for a key press
    try:
        host = Host() if root is None else Host.under(root)
        return Inventory(host, find_hierarchies(host)).take().containers
    except (NumauditError, OSError, ValueError):
        return ()


def _names(one: Container) -> Iterator[str]:
    """Those that a report finds it by; of a pod's groups the pod's name is enough."""
    if one.pod is not None:
        yield from (one.pod, f"{one.namespace}/{one.pod}")
        if one.kind == "container" and one.name is not None:
            yield from (f"{one.pod}/{one.name}", f"{one.namespace}/{one.pod}/{one.name}")
    elif one.pod_uid is None:
        yield one.path.rpartition("/")[2] if one.name is None else one.name


def _paths(one: Container) -> Iterator[str]:
    yield one.path


def _beginning(incomplete: str, names: Iterator[str]) -> list[CompletionItem]:
    """A name that a shell would not take as it is, such as one with a space or a backslash, is left out."""
    found = {name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)}
    return [CompletionItem(name) for name in sorted(found)]


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


class VerdictList(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """Names such as drifted,cpu-remote. Raises InputError for another name, with the one that is nearest."""

    name = "verdicts"

    def __init__(self, *, of_containers: bool = True, of_ranks: bool = False) -> None:
        self.of_containers, self.of_ranks = of_containers, of_ranks
        """The verdicts that are among them."""

    def _known(self) -> tuple[str, ...]:
        from numaudit.evaluation.ranks.rank import NOT_WHERE_BOUND  # (takes long)
        from numaudit.evaluation.verdicts import REMEDIES

        return (*(REMEDIES if self.of_containers else ()), *(NOT_WHERE_BOUND if self.of_ranks else ()))

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        from numaudit.report.gates import read_verdicts  # (takes long)

        return read_verdicts(str(value), "" if param is None else param.opts[0], self._known())

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The name after the last comma, with those before it."""
        before, comma, begun = incomplete.rpartition(",")
        given = before.split(",")
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in ("misaligned", *self._known())
            if name.startswith(begun) and name not in given
        ]


SORT_KEYS = ("verdict", "judged", "misplaced", "remote", "file", "cpu", "name")
"""KEYS of `numaudit.api.selection`."""


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A time such as 500ms, 10s, 1m or 2h; a bare number is seconds."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = 86400.0, *, or_none: bool = False) -> None:
        """Limits in seconds; a least of 0 is itself too little, unless `or_none`."""
        self._least, self._most, self._or_none = least, most, or_none

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        digits = text.rstrip("hms")
        unit = text[len(digits) :] or "s"
        try:
            seconds = float(digits) * _UNITS[unit]
        except (ValueError, KeyError):
            self.fail(f"{brief(text)!r} is not a time such as 500ms, 10s or 1m", param, ctx)
        if self._or_none and seconds == 0:
            return 0.0
        if not seconds > 0 or not self._least <= seconds <= self._most:
            self.fail(f"{brief(text)!r} is not {self._range()}", param, ctx)
        return seconds

    def _range(self) -> str:
        most = _time(self._most)
        if self._or_none:
            return f"between 0 s and {most}"
        return f"between {_time(self._least)} and {most}" if self._least else f"more than 0 and at most {most}"


def _time(seconds: float) -> str:
    if seconds and seconds % 3600 == 0:
        return f"{seconds / 3600:g} hour{'' if seconds == 3600 else 's'}"
    return f"{seconds:g} s"
