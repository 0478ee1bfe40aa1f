"""MPI launchers (Open MPI, Intel MPI, MPICH and MVAPICH2); Slurm, which binds tasks by the variables that srun gives to
each; and OpenMP, which places threads rather than processes. MPI binds CPUs; memory follows by first touch.

Source: srun(1), --cpu-bind and --mem-bind. An entry of its lists is of the task with that local id; lists begin again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from numaudit.ranks.declaration import Declaration, Placeable, PolicyKind, Told, common_value
from numaudit.ranks.launcher import Launcher, Option, Program, form
from numaudit.ranks.lists import Unresolved, entry, mask, union, with_strides
from numaudit.topology.nodeset import CpuSet, NodeSet

_OMPI, _OMPI_VERSION = "OMPI_MCA_hwloc_base_binding_policy", "OMPI_VERSION"
_WITHIN_A_NODE = ("hwthread", "core", "l1cache", "l2cache", "l3cache", "numa")
_BIND_TO = r"[a-z0-9:\-]{1,40}"
_USER = r"user:[0-9+,]{1,2048}"
_PIN, _DOMAIN, _PROCESSORS = "I_MPI_PIN", "I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST"
_PIN_INFO = "I_MPI_PIN_INFO"
_PIN_INFO_FORM = r"[0-9]{1,5}(?:[,\-][0-9]{1,5})*"
_MAPPING = "MV2_CPU_MAPPING"
_NO = ("0", "no", "off", "disable", "false")


def _open_mpi(told: Told, here: Placeable) -> Declaration | None:
    if "OMPI_COMM_WORLD_RANK" not in told.environment and "PMIX_RANK" not in told.environment:
        return None
    value = _bind_to(told)
    if value is not None:
        return _within("open-mpi", "--bind-to", "ancestor", value)
    # Open MPI 4 sets it to what is in force. Version 5 ignores it, passes it on, and names itself in OMPI_VERSION.
    value = told.environment.get(_OMPI)
    if value is None or _OMPI_VERSION in told.environment:
        return None
    return _within("open-mpi", _OMPI, "environment", value)


def _mpich(told: Told, here: Placeable) -> Declaration | None:
    mapping = told.environment.get(_MAPPING)
    if mapping is not None and "MV2_COMM_WORLD_LOCAL_RANK" in told.environment:
        if not told.runs("mpi", _MAPPING):
            return None
        cpus = CpuSet.parse(entry(mapping.split(":"), told.local_rank))
        return Declaration("mpich", _MAPPING, "environment", cpus=cpus)
    if not _is_numbered(told):
        return None
    value = _bind_to(told) or ""
    kind, _, rest = value.partition(":")
    if kind == "user":
        cpus = CpuSet.parse(entry(rest.split(","), told.local_rank).replace("+", ","))
        return Declaration("mpich", "--bind-to", "ancestor", cpus=cpus)
    if kind == "rr":
        return Declaration("mpich", "--bind-to", "ancestor", one_node=True)
    # Several of them, as in `core:2`, may be on several nodes.
    return None if rest not in ("", "1") else _within("mpich", "--bind-to", "ancestor", value)


def _is_numbered(told: Told) -> bool:
    """Did Hydra start it, the launcher of MPICH and Intel MPI?"""
    return "MPI_LOCALRANKID" in told.environment or "PMI_RANK" in told.environment


def _bind_to(told: Told) -> str | None:
    found = told.ancestor("mpirun")
    return None if found is None else common_value(found[0], "--bind-to")


def _within(launcher: str, source: str, where: Literal["environment", "ancestor"], value: str) -> Declaration | None:
    """Of `core`, `numa:overload-allowed`, ...; a socket may have several nodes."""
    if value.partition(":")[0] not in _WITHIN_A_NODE:
        return None
    return Declaration(launcher, source, where, one_node=True)


def _intel_mpi(told: Told, here: Placeable) -> Declaration | None:
    """Its launcher says the CPUs of each rank. Else a domain by name stays within a node; one by masks has its CPUs.

    The variables of users, which an image may have, count for a rank that runs the library.
    """
    values = told.environment
    if values.get(_PIN, "").lower() in _NO or not _is_numbered(told):
        return None
    if _PIN_INFO in values:
        return Declaration("intel-mpi", _PIN_INFO, "environment", cpus=CpuSet.parse(values[_PIN_INFO]))
    domain, processors = values.get(_DOMAIN), values.get(_PROCESSORS)
    asked = _PROCESSORS if domain is None else _DOMAIN
    if asked not in values or not told.runs("mpi", asked):
        return None
    if domain is not None and domain.startswith("["):
        text = entry(domain.strip("[]").split(","), told.local_rank)
        return Declaration("intel-mpi", _DOMAIN, "environment", cpus=mask(CpuSet, text))
    if domain is not None:
        named = domain.partition(":")[0] in ("core", "numa", "cache1", "cache2", "cache3")
        return Declaration("intel-mpi", _DOMAIN, "environment", one_node=True) if named else None
    assert processors is not None
    if not processors[:1].isdigit():
        raise Unresolved(f"{_PROCESSORS}: a pattern, and no list of CPUs")
    order = [cpu for part in processors.split(",") for cpu in CpuSet.parse(part)]
    if told.local_rank is None:
        raise Unresolved(f"{_PROCESSORS} has a CPU for each rank, and the process shows no local rank")
    return Declaration("intel-mpi", _PROCESSORS, "environment", cpus=CpuSet.of(order[told.local_rank % len(order)]))


_MPIRUN = Program(
    "mpirun",
    re.compile(r"mpirun(?:\.\w+)?|mpiexec(?:\.\w+)?|orterun|prterun|prun"),
    (Option("--bind-to", ("--bind-to", "-bind-to"), form(rf"{_BIND_TO}|{_USER}", 2048)),),
)
ROWS = (
    Launcher(
        "open-mpi",
        "Open MPI",
        "https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html",
        ("--bind-to", _OMPI),
        _open_mpi,
        {_OMPI: form(_BIND_TO), _OMPI_VERSION: form(r"[0-9a-z.\-]{1,24}")},
        (_MPIRUN,),
        tried=("Open MPI 4.1", "Open MPI 5.0"),
    ),
    Launcher(
        "intel-mpi",
        "Intel MPI",
        "https://www.intel.com/content/www/us/en/docs/mpi-library/developer-reference-linux/2021-16/process-pinning.html",
        (_PIN_INFO, _DOMAIN, _PROCESSORS, _PIN),
        _intel_mpi,
        {
            _PIN_INFO: form(_PIN_INFO_FORM, 8192),
            _PIN: form("[A-Za-z0-9]{1,8}"),
            _DOMAIN: form(r"\[[0-9a-fA-FxX,]+\]|[a-z0-9:\-]{1,40}", 8192),
            _PROCESSORS: form(r"[a-z0-9,\-:=]+", 2048),
        },
        follows_runtime=True,
        checked="by hand 2021.19",
    ),
    Launcher(
        "mpich",
        "MPICH, MVAPICH2",
        "https://www.mpich.org/documentation/guides/",
        ("--bind-to", _MAPPING),
        _mpich,
        {_MAPPING: form(r"[0-9,\-:]+", 4096)},
        follows_runtime=True,
        tried=("MPICH 5.0",),
    ),
)


_MASK_OR_NUMBERS = form(r"[0-9a-fA-FxX,*]*", 8192)
_TYPE = form(r"[a-z_,:]{0,64}")


def _memory(told: Told, here: Placeable) -> Declaration | None:
    kind = _kind(told.environment.get("SLURM_MEM_BIND_TYPE"))
    if kind in ("", "none"):
        return None
    policy: PolicyKind = "preferred" if "prefer" in told.environment.get("SLURM_MEM_BIND_PREFER", "") else "bind"
    source = "SLURM_MEM_BIND"
    if kind == "local":
        cpus = _cpus_of(told, here)
        nodes = None if cpus is None else here.nodes_of(cpus)
        return Declaration("slurm", source, "environment", policy, nodes, one_node=nodes is None)
    if kind == "rank":
        if told.local_rank is None:
            raise Unresolved("SLURM_MEM_BIND=rank: the process shows no local rank")
        order = list(here.cpus_of)
        nodes = NodeSet.of(order[told.local_rank % len(order)]) if order else None
    else:
        text = entry(told.environment.get("SLURM_MEM_BIND_LIST", "").split(","), told.local_rank)
        nodes = mask(NodeSet, text) if kind == "mask_mem" else NodeSet.parse(text)
    return Declaration("slurm", source, "environment", policy, nodes)


def _cpus(told: Told, here: Placeable) -> Declaration | None:
    cpus = _cpus_of(told, here)
    return None if cpus is None else Declaration("slurm-cpus", "SLURM_CPU_BIND", "environment", cpus=cpus)


def _cpus_of(told: Told, here: Placeable) -> CpuSet | None:
    """Raises Unresolved, ParseError."""
    kind = _kind(told.environment.get("SLURM_CPU_BIND_TYPE"))
    values = told.environment.get("SLURM_CPU_BIND_LIST", "").split(",")
    if kind in ("map_cpu", "mask_cpu", "map_ldom", "mask_ldom"):
        text = entry(values, told.local_rank).partition("*")[0]
        if kind.endswith("_cpu"):
            return CpuSet.parse(text) if kind == "map_cpu" else mask(CpuSet, text)
        return here.cpus_on(NodeSet.parse(text) if kind == "map_ldom" else mask(NodeSet, text))
    if kind in ("rank", "rank_ldom"):
        raise Unresolved("SLURM_CPU_BIND=rank: the CPUs follow from the job's, which are not in the environment")
    return None


def _kind(text: str | None) -> str:
    """`mask_cpu:` of `quiet,mask_cpu:`."""
    return "" if text is None else text.rstrip(":").rpartition(",")[2]


_CPU_KEYS = {"SLURM_CPU_BIND_TYPE": _TYPE, "SLURM_CPU_BIND_LIST": _MASK_OR_NUMBERS}
_SRUN = "https://slurm.schedmd.com/srun.html"
SLURM = (
    Launcher(
        "slurm",
        "Slurm (--mem-bind)",
        _SRUN,
        ("SLURM_MEM_BIND", "SLURM_LOCALID"),
        _memory,
        {
            "SLURM_MEM_BIND_TYPE": _TYPE,
            "SLURM_MEM_BIND_LIST": _MASK_OR_NUMBERS,
            "SLURM_MEM_BIND_PREFER": form("[a-z]{0,16}"),
            **_CPU_KEYS,
        },
        tried=("Slurm 22.05",),
    ),
    Launcher(
        "slurm-cpus",
        "Slurm (--cpu-bind)",
        _SRUN,
        ("SLURM_CPU_BIND", "SLURM_LOCALID"),
        _cpus,
        _CPU_KEYS,
        tried=("Slurm 22.05",),
    ),
)


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


OPENMP = Launcher(
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
)
