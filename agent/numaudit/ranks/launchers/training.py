"""Launchers of training jobs: torchrun, DeepSpeed and Ray."""

from __future__ import annotations

import re

from numaudit.ranks.declaration import Declaration, Placeable, Told, common_value
from numaudit.ranks.launcher import Launcher, Option, Program, form
from numaudit.ranks.lists import Unresolved
from numaudit.topology.nodeset import CpuSet, NodeSet

_BINDINGS = "node|socket|exclusive|core-complex"
_ACTOR = re.compile(
    r"ray::(?!(?:IDLE|(?:IDLE|SPILL|RESTORE|DELETE)_(?:Spill|Restore)Worker|(?:Dashboard|RuntimeEnv)Agent)$)\w+",
    re.ASCII,
)
"""Of the titles of workers, of actors and running tasks. Source: _private/ray_constants.py, worker.py."""


def _torchrun(told: Told, here: Placeable) -> Declaration | None:
    """CPUs of the node of the rank's GPU; no memory policy at all. A socket may have several nodes."""
    found = told.ancestor("torchrun")
    value = None if found is None else common_value(found[0], "--numa-binding")
    if found is None or value is None or told.local_rank is None:
        return None
    if value == "socket" and len(here.cpus_of) > 1:
        raise Unresolved("--numa-binding socket: the socket of the rank's GPU is not looked up")
    return Declaration("torchrun", "--numa-binding", "ancestor", one_node=True)


def _deepspeed(told: Told, here: Placeable) -> Declaration | None:
    """Equal parts of the list of cores; numactl -m is added only where all cores of a part are on one node.

    With as many nodes without CPUs as with some, -p and the one that belongs to that node: high bandwidth memory.
    """
    found = told.ancestor("deepspeed")
    if found is None or not any(one.option == "--bind_cores_to_rank" for one in found[0]) or told.local_rank is None:
        return None
    value, size = common_value(found[0], "--bind_core_list"), told.environment.get("LOCAL_SIZE", "")
    if value is None or not size.isdigit() or not int(size):
        raise Unresolved("--bind_cores_to_rank: DeepSpeed chooses the cores without --bind_core_list")
    cores = list(CpuSet.parse(value))
    each = len(cores) // int(size)
    cpus = CpuSet.from_ids(cores[each * told.local_rank : each * (told.local_rank + 1)])
    nodes = here.nodes_of(cpus)
    with_cpus = [node for node, own in here.cpus_of.items() if own]
    without = [node for node, own in here.cpus_of.items() if not own]
    if len(nodes) == 1 and len(without) == len(with_cpus):
        near = NodeSet.of(dict(zip(with_cpus, without, strict=True))[next(iter(nodes))])
        return Declaration("deepspeed", "--bind_cores_to_rank", "ancestor", "preferred", near, cpus)
    if len(nodes) == 1:
        return Declaration("deepspeed", "--bind_cores_to_rank", "ancestor", "bind", nodes, cpus)
    return Declaration("deepspeed", "--bind_cores_to_rank", "ancestor", cpus=cpus)


def _ray(told: Told, here: Placeable) -> Declaration | None:
    """Ray binds none of its workers, so only where a container has several nodes it is of interest that nobody did."""
    if len(here.nodes_of(here.cpus) & here.nodes) < 2 or not any(_ACTOR.fullmatch(one) for one in told.own.names):
        return None
    return Declaration("ray", "ray::", "arguments")


ROWS = (
    Launcher(
        "torchrun",
        "PyTorch (torchrun)",
        "https://docs.pytorch.org/docs/stable/elastic/run.html",
        ("--numa-binding",),
        _torchrun,
        {},
        (
            Program(
                "torchrun",
                re.compile(r"torchrun|torch\.distributed\.(?:run|launch)"),
                (Option("--numa-binding", ("--numa-binding", "--numa_binding"), form(_BINDINGS)),),
            ),
        ),
        checked="code of 2.15",
    ),
    Launcher(
        "deepspeed",
        "DeepSpeed",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/utils/numa.py",
        ("--bind_cores_to_rank", "--bind_core_list"),
        _deepspeed,
        {"LOCAL_SIZE": form("[0-9]{1,4}")},
        (
            Program(
                "deepspeed",
                re.compile(r"deepspeed|deepspeed\.launcher\.launch"),
                (
                    Option("--bind_cores_to_rank", ("--bind_cores_to_rank",)),
                    Option("--bind_core_list", ("--bind_core_list",), form(r"[0-9,\-]+", 2048)),
                ),
            ),
        ),
        checked="code of 0.19",
    ),
)
RAY = Launcher(
    "ray",
    "Ray",
    "https://docs.ray.io/en/latest/ray-core/actors.html",
    ("ray::",),
    _ray,
    {},
    checked="code of 2.60",
)
