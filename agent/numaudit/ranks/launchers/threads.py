"""Runtimes that place threads rather than processes: OpenMP, hwloc-bind."""

from __future__ import annotations

import re

from numaudit.ranks.declaration import Declaration, Placeable, PolicyKind, Told
from numaudit.ranks.launcher import Launcher, Option, Program, form
from numaudit.ranks.lists import Unresolved, union
from numaudit.topology.nodeset import CpuSet, NodeSet

_PLACE = re.compile(r"\{([0-9,: ]*)\}(?::(\d{1,3})(?::(\d{1,4}))?)?", re.ASCII)
_GOMP_PART = r"[0-9]{1,4}(?:-[0-9]{1,4}(?::[0-9]{1,4})?)?"
_PROCLIST = re.compile(r"proclist=\[([0-9,\-]+)\]", re.ASCII)


def _openmp(told: Told, here: Placeable) -> Declaration | None:
    """Each of its threads has a place of its own; the main thread is one of them."""
    values = told.environment
    if "GOMP_CPU_AFFINITY" in values:
        cpus = union(CpuSet, [_gomp(one) for one in values["GOMP_CPU_AFFINITY"].replace(",", " ").split()])
        return Declaration("openmp", "GOMP_CPU_AFFINITY", "environment", cpus=cpus, threads="main")
    listed = _PROCLIST.search(values.get("KMP_AFFINITY", ""))
    if listed is not None:
        cpus = CpuSet.parse(listed[1])
        return Declaration("openmp", "KMP_AFFINITY", "environment", cpus=cpus, threads="main")
    places = values.get("OMP_PLACES")
    if places is None or values.get("OMP_PROC_BIND", "true").lower() == "false":
        return None
    if places.startswith("{"):
        cpus = _places(places)
        return Declaration("openmp", "OMP_PLACES", "environment", cpus=cpus, threads="main")
    named = places.partition("(")[0] in ("threads", "cores", "ll_caches", "numa_domains")
    return Declaration("openmp", "OMP_PLACES", "environment", one_node=True, threads="main") if named else None


def _gomp(text: str) -> str:
    """`0-6:2` of libgomp is `0-6:1/2` of the kernel."""
    head, colon, stride = text.partition(":")
    return f"{head}:1/{stride}" if colon else text


def _places(text: str) -> CpuSet:
    """All CPUs of `{0:4}:8:4`: eight places of four CPUs, each four CPUs after the last."""
    found, every = 0, (1 << CpuSet.limit) - 1
    for match in _PLACE.finditer(text):
        place = CpuSet.from_ids(cpu for part in match[1].split(",") if part.strip() for cpu in _interval(part))
        stride = int(match[3] or (len(place) or 1))
        count = int(match[2] or 1) if stride else 1
        for number in range(min(count, CpuSet.limit // max(stride, 1))):
            found |= place.mask << number * stride & every
    return CpuSet(found)


def _interval(text: str) -> range:
    first, *more = (int(one) for one in text.split(":"))
    length = min(more[0] if more else 1, 4096)
    stride = more[1] if len(more) > 1 else 1
    return range(first, min(first + length * max(stride, 1), CpuSet.limit), max(stride, 1))


_POLICIES: dict[str, PolicyKind] = {"bind": "bind", "interleave": "interleave", "firsttouch": "local"}
_NODE = re.compile(r"(?:numa)?node:(os=)?(\d{1,4})", re.ASCII | re.IGNORECASE)


def _hwloc(told: Told, here: Placeable) -> Declaration | None:
    """Nodes by logical index are those with CPUs in the order of their first one, as hwloc has them."""
    found = told.ancestor("hwloc-bind")
    if found is None:
        return None
    values = {one.option: one.value for one in found[0]}
    order = sorted((node for node in here.cpus_of if here.cpus_of[node]), key=lambda node: min(here.cpus_of[node]))
    memory = _node(values.get("--membind"), order, "--physical" in values)
    cpu = _node(values.get("--cpubind"), order, "--physical" in values)
    if memory is None and cpu is None:
        return None
    policy = None if memory is None else _POLICIES.get(values.get("--mempolicy", "bind"), "bind")
    cpus = None if cpu is None else here.cpus_on(cpu)
    return Declaration("hwloc-bind", "hwloc-bind", "ancestor", policy, memory, cpus)


def _node(text: str | None, order: list[int], is_physical: bool) -> NodeSet | None:
    if text is None:
        return None
    match = _NODE.fullmatch(text)
    if match is None:
        raise Unresolved("hwloc-bind: only locations such as node:0 are read")
    number = int(match[2])
    if match[1] or is_physical:
        return NodeSet.of(number)
    if number >= len(order):
        raise Unresolved("hwloc-bind: the machine has fewer nodes with CPUs")
    return NodeSet.of(order[number])


ROWS = (
    Launcher(
        "hwloc-bind",
        "hwloc-bind",
        "https://www.open-mpi.org/projects/hwloc/doc/",
        ("--membind", "--mempolicy", "--cpubind"),
        _hwloc,
        {},
        (
            Program(
                "hwloc-bind",
                re.compile(r"hwloc-bind"),
                (
                    Option("--membind", ("--membind",), form(r"[A-Za-z]{1,12}:[a-z0-9=\-]{1,20}")),
                    Option("--cpubind", ("--cpubind",), form(r"[A-Za-z]{1,12}:[a-z0-9=\-]{1,20}")),
                    Option("--mempolicy", ("--mempolicy",), form("[a-z]{1,16}")),
                    Option("--physical", ("--physical", "-p")),
                ),
            ),
        ),
    ),
    Launcher(
        "openmp",
        "OpenMP runtimes",
        "https://www.openmp.org/spec-html/5.2/openmpse63.html",
        ("OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"),
        _openmp,
        {
            "OMP_PLACES": form(r"[a-z_]+(?:\([0-9]+\))?|[0-9{},: ]+"),
            "OMP_PROC_BIND": form(r"[A-Za-z,]{1,64}"),
            "GOMP_CPU_AFFINITY": form(
                r"[0-9]{1,4}(?:-[0-9]{1,4}(?::[0-9]{1,4})?)?(?:[, ]+[0-9]{1,4}(?:-[0-9]{1,4}(?::[0-9]{1,4})?)?)*"
            ),
            "KMP_AFFINITY": form(r"[a-zA-Z0-9,=\-\[\]{}]+", 4096),
        },
    ),
)
