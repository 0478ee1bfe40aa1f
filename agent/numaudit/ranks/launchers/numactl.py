"""numactl's options, which vLLM and others use too.

Source: numactl(8), numactl.c. After execve(2) nothing of them is left but the policy, so they are read where an
ancestor still shows them: a shell, timeout, mpirun.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from numaudit.errors import ParseError
from numaudit.ranks.declaration import Declaration, Given, Placeable, PolicyKind, Told
from numaudit.ranks.launcher import Launcher, Option, Program
from numaudit.ranks.lists import DEVICES, NUMACTL_LIST, numactl_list
from numaudit.topology.nodeset import CpuSet, NodeSet


def _list(text: str) -> str | None:
    """A list, or the kind of a device without its name."""
    for prefix in DEVICES:
        if text.startswith(prefix):
            return prefix
    return text if NUMACTL_LIST.fullmatch(text) else None


def _nothing(text: str) -> str:
    return ""


_OF_SHARED_MEMORY = {"file": "-f", "shm": "-S", "shmid": "-I", "length": "-L", "offset": "-o", "shmmode": "-M"}
"""Options with which it sets the policy of shared memory, and of no program."""
_POLICIES: dict[str, PolicyKind] = {
    "--membind": "bind",
    "--preferred": "preferred",
    "--preferred-many": "preferred-many",
    "--interleave": "interleave",
    "--weighted-interleave": "weighted-interleave",
    "--localalloc": "local",
}
PROGRAM = Program(
    "numactl",
    re.compile(r"numactl"),
    (
        Option("--membind", ("--membind", "-m"), _list),
        Option("--preferred", ("--preferred", "-p"), _list),
        Option("--preferred-many", ("--preferred-many", "-P"), _list),
        Option("--interleave", ("--interleave", "-i"), _list),
        Option("--weighted-interleave", ("--weighted-interleave", "-w"), _list),
        Option("--localalloc", ("--localalloc", "-l")),
        Option("--cpunodebind", ("--cpunodebind", "--cpubind", "-N", "-c"), _list),
        Option("--physcpubind", ("--physcpubind", "-C"), _list),
        Option("--all", ("--all", "-a")),
        Option("--balancing", ("--balancing", "-b")),
        *(Option(one, (f"--{one}", letter), _nothing) for one, letter in _OF_SHARED_MEMORY.items()),
    ),
    is_getopt=True,
    becomes=True,
)


def read_options(found: Sequence[Given], declared: Declaration, here: Placeable) -> Declaration | None:
    """The declaration with what numactl's options say; None = they say nothing. Raises ParseError, Unresolved."""
    values = {one.option: one.value for one in found}
    if not values.keys().isdisjoint(_OF_SHARED_MEMORY):
        return None
    policies = [name for name in _POLICIES if name in values]
    if len(policies) > 1:
        raise ParseError("numactl refuses more than one memory policy")
    policy = _POLICIES[policies[0]] if policies else None
    nodes = None
    if policies and policy != "local":
        nodes = _nodes(values[policies[0]], values, here)
    cpus = _cpus(values, here)
    if policy is None and cpus is None:
        return None
    return replace(declared, policy=policy, memory_nodes=nodes, cpus=cpus)


def _nodes(text: str, values: dict[str, str], here: Placeable) -> NodeSet:
    return numactl_list(NodeSet, text, here.nodes, NodeSet.from_ids(here.cpus_of) if "--all" in values else here.nodes)


def _cpus(values: dict[str, str], here: Placeable) -> CpuSet | None:
    if "--physcpubind" in values:
        return numactl_list(CpuSet, values["--physcpubind"], here.cpus, here.cpus)
    if "--cpunodebind" in values:
        return here.cpus_on(_nodes(values["--cpunodebind"], values, here))
    return None


def _declare(told: Told, here: Placeable) -> Declaration | None:
    found = told.launched_by("numactl")
    if found is None:
        return None
    return read_options(found.given, Declaration("numactl", "numactl", "ancestor", doubt=found.doubt), here)


ROW = Launcher(
    "numactl",
    "numactl",
    "https://github.com/numactl/numactl/blob/master/numactl.8",
    ("numactl", *_POLICIES, "--cpunodebind", "--physcpubind"),
    _declare,
    {},
    (PROGRAM,),
    tried=("numactl 2.0",),
)
