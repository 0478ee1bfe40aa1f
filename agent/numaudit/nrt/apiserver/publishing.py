"""One round of publishing: annotations of this node's NodeResourceTopology, written where they differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from numaudit.errors import cut, printable, to_keep
from numaudit.nrt.apiserver.client import API_VERSION, KIND, WHOLE, ApiServer, Observed
from numaudit.nrt.apiserver.failures import ApiFailure, Reason
from numaudit.nrt.resource_topology import PREFIX, annotations_of, node_resource_topology, size_of
from numaudit.nrt.topology import NodeTopology

MANAGER = "numaudit"
"""Field manager of the annotations."""
MANAGER_OF_ZONES = "numaudit-zones"
"""Field manager of the whole object. It is another one, for a manager that applies without a field gives it up: an
agent that owns the object no longer would remove its zones."""
MOST_ANNOTATION_BYTES = 256 << 10
"""Of all writers, keys and values. Source: apimachinery, pkg/api/validation (TotalAnnotationSizeLimitB)."""
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""A DNS subdomain (RFC 1123)."""
_LONGEST_NAME = 253


class Wanted(Struct, frozen=True):
    """Values that the object should have."""

    annotations: Mapping[str, str]
    whole: Mapping[str, object] | None = None
    """Values of WHOLE; None = they are others'."""


def wanted_of(topology: NodeTopology, published: Mapping[str, str], *, own: bool) -> Wanted:
    """Values for the object of this node. `published`: our annotations as they are there."""
    annotations = annotations_of(topology, published)
    if not own:
        return Wanted(annotations)
    found = node_resource_topology(topology)
    return Wanted(annotations, {name: found[name] for name in WHOLE if name in found})


Describe = Callable[[Mapping[str, str]], Wanted]
"""Our annotations as they were published -> what they should be."""


class Round(Struct, frozen=True):
    """Outcome of a round."""

    written: tuple[str, ...]
    """Requests that wrote: the object, its annotations. Empty = nothing had changed."""
    annotations: Mapping[str, str]
    """Ours, as the object has them now."""
    before: Mapping[str, str] | None
    """Ours, as it had them before; None = there was no object."""
    refusal: ApiFailure | None = None
    """Somebody else owns a part of the object, which was wanted whole. The annotations are ours in any case."""


def node_of(name: str | None) -> str:
    """The name of the node's object, as the kubelet makes it. Raises ApiFailure for one that no node has."""
    if not name:
        message = "the name of this node is not known; set K8S_NODE_NAME to it"
        raise ApiFailure(Reason.NODE_NAME, message)
    found = name.strip().lower()
    if len(found) > _LONGEST_NAME or not _NODE_NAME.fullmatch(found):
        shown = printable(cut(name))
        raise ApiFailure(Reason.NODE_NAME, f"no node can be called {shown!r}; set K8S_NODE_NAME to its name")
    return found


def publish(server: ApiServer, node: str, describe: Describe) -> Round:
    """Write what differs: the annotations, and the whole object if that is wanted. Raises ApiFailure."""
    seen = server.get(node)
    before = None if seen is None else _ours(seen.annotations)
    wanted = describe(before or {})
    written: list[str] = []
    refusal = None
    if wanted.whole is not None:
        try:
            seen = _write_whole(server, node, seen, wanted.whole, written)
        except ApiFailure as failure:
            if failure.reason is not Reason.OWNED:
                raise
            refusal = to_keep(failure)
    if seen is None:
        raise refusal or _no_object(node)
    _write_annotations(server, node, seen, wanted.annotations, written)
    return Round(tuple(written), wanted.annotations, before, refusal)


def _write_annotations(
    server: ApiServer, node: str, seen: Observed, wanted: Mapping[str, str], written: list[str]
) -> None:
    if _ours(seen.annotations) == wanted:
        return
    size = size_of(wanted) + size_of({key: value for key, value in seen.annotations.items() if key not in wanted})
    if size > MOST_ANNOTATION_BYTES:
        message = (
            f"the annotations of {KIND} {node} would take {size} bytes with those of others, and Kubernetes allows "
            f"{MOST_ANNOTATION_BYTES}; remove annotations that are not {PREFIX}*"
        )
        raise ApiFailure(Reason.TOO_LARGE, message)
    server.apply(node, {"metadata": {"name": node, "annotations": dict(wanted)}}, MANAGER, force=True)
    written.append("annotations")


def _write_whole(
    server: ApiServer, node: str, seen: Observed | None, whole: Mapping[str, object], written: list[str]
) -> Observed:
    if seen is not None:
        unnamed = {"a writer without a name"} if seen.whole and not seen.owners else set()
        if others := sorted(seen.owners - {MANAGER_OF_ZONES} | unnamed):
            owner = ", ".join(printable(cut(one)) for one in others)
            message = (
                f"{owner} owns zones or attributes of {KIND} {node}, so they were not written; leave the object to "
                "that writer, or delete the object if it is gone"
            )
            raise ApiFailure(Reason.OWNED, message)
        if seen.whole == whole:
            return seen
    written.append("the object")
    fields = {"metadata": {"name": node}, **{name: whole[name] for name in WHOLE if name in whole}}
    return server.apply(node, fields, MANAGER_OF_ZONES, force=False)


def _no_object(node: str) -> ApiFailure:
    return ApiFailure(
        Reason.NO_OBJECT,
        f"the cluster has no {KIND} ({API_VERSION}) {node}; Node Feature Discovery's topology updater or the resource "
        "topology exporter makes it; where neither runs, let numaudit own it (--own, nrt.publish); if the node has "
        "another name, set K8S_NODE_NAME",
    )


def _ours(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key.startswith(PREFIX)}
