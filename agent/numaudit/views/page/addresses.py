"""Addresses inside the page that stay the same from tick to tick."""

from __future__ import annotations

from hashlib import sha256

from numaudit.report.values import ContainerReport


def key(one: ContainerReport) -> str:
    """Letters and digits: its cgroup's id; of a promised container that does not run, a hash of its names."""
    if one.id is not None:
        return str(one.id)
    name = "\0".join((one.pod_uid or "", one.namespace or "", one.pod or "", one.container or ""))
    return f"n{sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"


def row_address(one: ContainerReport) -> str:
    """Of its row in the table."""
    return f"#row-{key(one)}"
