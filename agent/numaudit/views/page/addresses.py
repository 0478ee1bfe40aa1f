"""Addresses inside the page that stay the same from tick to tick."""

from __future__ import annotations

from hashlib import sha256

from msgspec import Struct

from numaudit.report.values import ContainerReport


def key(one: ContainerReport) -> str:
    """Letters and digits: its cgroup's id; of a promised container that does not run, a hash of its names."""
    if one.id is not None:
        return str(one.id)
    name = "\0".join((one.pod_uid or "", one.namespace or "", one.pod or "", one.container or ""))
    return f"n{sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"


class Addresses(Struct, frozen=True):
    """Addresses of the containers' own pages."""

    here: frozenset[str] | None = None
    """Keys of those that have a section on this page; None = the agent makes a page for each."""

    def own(self, one: ContainerReport) -> str | None:
        """Of its own page; None = it has none."""
        name = key(one)
        if self.here is None:
            return f"?container={name}"
        return f"#container-{name}" if name in self.here else None

    def nearest(self, one: ContainerReport) -> str:
        """Of its own page, else of its row in the table."""
        return self.own(one) or f"#row-{key(one)}"
