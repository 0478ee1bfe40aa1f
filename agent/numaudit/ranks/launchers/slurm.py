"""Slurm's binding of tasks, by the variables that srun gives to each.

Source: srun(1), --cpu-bind and --mem-bind. An entry of a list is of the task with that local id; lists begin again.
"""

from __future__ import annotations

from numaudit.ranks.declaration import Declaration, Placeable, PolicyKind, Told
from numaudit.ranks.launcher import Launcher, form
from numaudit.ranks.lists import Unresolved, entry, mask
from numaudit.topology.nodeset import CpuSet, NodeSet

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
ROWS = (
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
