"""MPI launchers: Open MPI, Intel MPI, MPICH and MVAPICH2. They bind CPUs; memory follows by first touch."""

from __future__ import annotations

import re
from typing import Literal

from numaudit.ranks.declaration import Declaration, Placeable, Told, common_value
from numaudit.ranks.launcher import Launcher, Option, Program, form
from numaudit.ranks.lists import Unresolved, entry, mask
from numaudit.topology.nodeset import CpuSet

_OMPI, _PRTE = "OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy"
_WITHIN_A_NODE = ("hwthread", "core", "l1cache", "l2cache", "l3cache", "numa")
_BIND_TO = r"[a-z0-9:\-]{1,40}"
_PIN, _DOMAIN, _PROCESSORS = "I_MPI_PIN", "I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST"
_NO = ("0", "no", "off", "disable", "false")


def _open_mpi(told: Told, here: Placeable) -> Declaration | None:
    if "OMPI_COMM_WORLD_RANK" not in told.environment and "PMIX_RANK" not in told.environment:
        return None
    for key in (_OMPI, _PRTE):
        if key in told.environment:
            return _within("open-mpi", key, "environment", told.environment[key])
    return _of_mpirun("open-mpi", told)


def _mpich(told: Told, here: Placeable) -> Declaration | None:
    mapping = told.environment.get("MV2_CPU_MAPPING")
    if mapping is not None:
        cpus = CpuSet.parse(entry(mapping.split(":"), told.local_rank))
        return Declaration("mpich", "MV2_CPU_MAPPING", "environment", cpus=cpus)
    if "MPI_LOCALRANKID" not in told.environment and "PMI_RANK" not in told.environment:
        return None
    return _of_mpirun("mpich", told)


def _of_mpirun(launcher: str, told: Told) -> Declaration | None:
    found = told.ancestor("mpirun")
    value = None if found is None else common_value(found[0], "--bind-to")
    return None if value is None else _within(launcher, "--bind-to", "ancestor", value)


def _within(launcher: str, source: str, where: Literal["environment", "ancestor"], value: str) -> Declaration | None:
    """Of `core`, `numa:overload-allowed`, ...; a socket may have several nodes."""
    if value.partition(":")[0] not in _WITHIN_A_NODE:
        return None
    return Declaration(launcher, source, where, one_node=True)


def _intel_mpi(told: Told, here: Placeable) -> Declaration | None:
    """A domain by name stays within a node; one by masks has its CPUs."""
    values = told.environment
    if values.get(_PIN, "").lower() in _NO:
        return None
    domain = values.get(_DOMAIN)
    if domain is not None and domain.startswith("["):
        text = entry(domain.strip("[]").split(","), told.local_rank)
        return Declaration("intel-mpi", _DOMAIN, "environment", cpus=mask(CpuSet, text))
    if domain is not None:
        named = domain.partition(":")[0] in ("core", "numa", "cache1", "cache2", "cache3")
        return Declaration("intel-mpi", _DOMAIN, "environment", one_node=True) if named else None
    processors = values.get(_PROCESSORS)
    if processors is None:
        return None
    if not processors[:1].isdigit():
        raise Unresolved(f"{_PROCESSORS}: a pattern, and no list of CPUs")
    order = list(CpuSet.parse(processors))
    if told.local_rank is None:
        raise Unresolved(f"{_PROCESSORS} has a CPU for each rank, and the process shows no local rank")
    return Declaration("intel-mpi", _PROCESSORS, "environment", cpus=CpuSet.of(order[told.local_rank % len(order)]))


_MPIRUN = Program(
    "mpirun",
    re.compile(r"mpirun(?:\.\w+)?|mpiexec(?:\.\w+)?|orterun|prterun|prun"),
    (Option("--bind-to", ("--bind-to", "-bind-to"), form(_BIND_TO)),),
)
ROWS = (
    Launcher(
        "open-mpi",
        "Open MPI",
        "https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html",
        (_OMPI, _PRTE, "--bind-to"),
        _open_mpi,
        {_OMPI: form(_BIND_TO), _PRTE: form(_BIND_TO)},
        (_MPIRUN,),
    ),
    Launcher(
        "intel-mpi",
        "Intel MPI",
        "https://www.intel.com/content/www/us/en/docs/mpi-library/developer-reference-linux/2021-16/process-pinning.html",
        (_DOMAIN, _PROCESSORS, _PIN),
        _intel_mpi,
        {
            _PIN: form("[A-Za-z0-9]{1,8}"),
            _DOMAIN: form(r"\[[0-9a-fA-FxX,]+\]|[a-z0-9:\-]{1,40}", 8192),
            _PROCESSORS: form(r"[a-z0-9,\-:=]+", 2048),
        },
    ),
    Launcher(
        "mpich",
        "MPICH, MVAPICH2",
        "https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md",
        ("MV2_CPU_MAPPING", "--bind-to"),
        _mpich,
        {"MV2_CPU_MAPPING": form(r"[0-9,\-:]+", 4096)},
    ),
)
