"""Runtimes that place threads rather than processes: OpenMP."""

from __future__ import annotations

import re
from collections.abc import Mapping

from numaudit.ranks.declaration import Declaration, Placeable, Told
from numaudit.ranks.launcher import Launcher, form
from numaudit.ranks.lists import union, with_strides
from numaudit.topology.nodeset import CpuSet

_PLACE = re.compile(r"\{([0-9,: ]*)\}(?::(\d{1,3})(?::(\d{1,4}))?)?", re.ASCII)
_PROCLIST = re.compile(r"proclist=\[([0-9,\-]+)\]", re.ASCII)


def _openmp(told: Told, here: Placeable) -> Declaration | None:
    """Each thread of the runtime has a place of its own; the main thread is one of them."""
    declared = _placed(told.environment)
    return declared if declared is not None and told.runs("openmp", declared.source) else None


def _placed(values: Mapping[str, str]) -> Declaration | None:
    if "GOMP_CPU_AFFINITY" in values:
        cpus = union(CpuSet, [with_strides(one) for one in values["GOMP_CPU_AFFINITY"].replace(",", " ").split()])
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


ROWS = (
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
        follows_runtime=True,
        tried=("libgomp 12.2", "libomp 14"),
    ),
)
