"""Names of what runs on this host, for the shell's completion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from numaudit.errors import NumauditError
from numaudit.kernel.host import Host

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
    from numaudit.containers.inventory import Inventory  # noqa: PLC0415 (for the completion of names only)
    from numaudit.kernel.cgroup import find_hierarchies  # noqa: PLC0415

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
