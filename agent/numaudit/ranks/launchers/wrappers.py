"""Programs that bind themselves and then become another one: numactl, taskset, hwloc-bind, likwid-pin.

After execve(2) nothing of the first three is left but what is in force, so they are read where an ancestor still shows
them: a shell, timeout, mpirun. vLLM and others use numactl's options, too. Source: numactl(8), numactl.c, taskset(1),
hwloc-bind(1), and the text of likwid-pin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from numaudit.errors import ParseError
from numaudit.ranks.declaration import Declaration, Given, Placeable, PolicyKind, Told
from numaudit.ranks.launcher import Launcher, Option, Program, form
from numaudit.ranks.lists import DEVICES, NUMACTL_LIST, Unresolved, mask, numactl_list, with_strides
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
_NUMACTL_POLICIES: dict[str, PolicyKind] = {
    "--membind": "bind",
    "--preferred": "preferred",
    "--preferred-many": "preferred-many",
    "--interleave": "interleave",
    "--weighted-interleave": "weighted-interleave",
    "--localalloc": "local",
}
NUMACTL = Program(
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
    policies = [name for name in _NUMACTL_POLICIES if name in values]
    if len(policies) > 1:
        raise ParseError("numactl refuses more than one memory policy")
    policy = _NUMACTL_POLICIES[policies[0]] if policies else None
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


NUMACTL_ROW = Launcher(
    "numactl",
    "numactl",
    "https://github.com/numactl/numactl/blob/master/numactl.8",
    ("numactl", *_NUMACTL_POLICIES, "--cpunodebind", "--physcpubind"),
    _declare,
    programs=(NUMACTL,),
    tried=("numactl 2.0",),
)


_HWTHREADS = "LIKWID_HWTHREADS"
_POLICIES: dict[str, PolicyKind] = {"bind": "preferred", "interleave": "interleave", "firsttouch": "local"}
_NODE = re.compile(r"(?:numa)?node:(os=)?(\d{1,4})", re.ASCII | re.IGNORECASE)
_LOCATION = form(r"[A-Za-z0-9]{1,12}:[a-z0-9=\-.:]{1,40}|0x[0-9a-f,x]{1,400}|all|root")


def _taskset(told: Told, here: Placeable) -> Declaration | None:
    """A mask, or with -c a list; with -p it binds other processes than its own."""
    found = told.launched_by("taskset")
    values = {} if found is None else found.values
    text = values.get("CPUs")
    if found is None or text is None or "--pid" in values:
        return None
    cpus = CpuSet.parse(with_strides(text)) if "--cpu-list" in values else mask(CpuSet, text)
    return Declaration("taskset", "taskset", "ancestor", cpus=cpus, doubt=found.doubt)


def _likwid(told: Told, here: Placeable) -> Declaration | None:
    """Its library binds each thread to one of them; the process may use all."""
    value = told.environment.get(_HWTHREADS)
    return None if value is None else Declaration("likwid", _HWTHREADS, "environment", cpus=CpuSet.parse(value))


def _hwloc(told: Told, here: Placeable) -> Declaration | None:
    """Nodes by logical index are those with CPUs in the order of their first one, as hwloc has them.

    It binds memory with MPOL_BIND only if --strict asks for it, else with MPOL_PREFERRED.
    """
    found = told.launched_by("hwloc-bind")
    if found is None:
        return None
    values = found.values
    order = sorted((node for node in here.cpus_of if here.cpus_of[node]), key=lambda node: min(here.cpus_of[node]))
    is_physical = "--physical" in values
    locations = (values.get("--membind"), values.get("--cpubind", values.get("location")))
    memory, cpu = (None if one is None else _node(one, order, is_physical) for one in locations)
    if memory is None and cpu is None:
        if any(locations):
            raise Unresolved("hwloc-bind: only locations such as node:0 are read")
        return None
    policy = None if memory is None else _POLICIES.get(values.get("--mempolicy", "bind"))
    if policy == "preferred" and "--strict" in values:
        policy = "bind"
    memory = None if policy is None else memory
    cpus = None if cpu is None else here.cpus_on(cpu)
    return Declaration("hwloc-bind", "hwloc-bind", "ancestor", policy, memory, cpus, doubt=found.doubt)


def _node(text: str, order: list[int], is_physical: bool) -> NodeSet | None:
    """None = another location than a node."""
    match = _NODE.fullmatch(text)
    if match is None:
        return None
    number = int(match[2])
    if match[1] or is_physical:
        return NodeSet.of(number)
    if number >= len(order):
        raise Unresolved("hwloc-bind: the machine has fewer nodes with CPUs")
    return NodeSet.of(order[number])


ROWS = (
    Launcher(
        "taskset",
        "taskset",
        "https://man7.org/linux/man-pages/man1/taskset.1.html",
        ("taskset", "--cpu-list"),
        _taskset,
        programs=(
            Program(
                "taskset",
                re.compile(r"taskset"),
                (
                    Option("--cpu-list", ("--cpu-list", "-c")),
                    Option("--pid", ("--pid", "-p")),
                    Option("--all-tasks", ("--all-tasks", "-a")),
                ),
                is_getopt=True,
                becomes=True,
                first=Option("CPUs", (), form(r"(?:0[xX])?[0-9a-fA-F]{1,512}|[0-9,\-:]{1,2048}", 2048)),
            ),
        ),
        tried=("util-linux 2.38",),
    ),
    Launcher(
        "hwloc-bind",
        "hwloc-bind",
        "https://www.open-mpi.org/projects/hwloc/doc/",
        ("hwloc-bind", "--membind", "--mempolicy", "--cpubind"),
        _hwloc,
        programs=(
            Program(
                "hwloc-bind",
                re.compile(r"hwloc-bind"),
                (
                    Option("--membind", ("--membind",), _LOCATION),
                    Option("--cpubind", ("--cpubind",), _LOCATION),
                    Option("--mempolicy", ("--mempolicy",), form("[a-z]{1,16}")),
                    Option("--physical", ("--physical", "-p")),
                    Option("--strict", ("--strict",)),
                ),
                becomes=True,
                first=Option("location", (), _LOCATION),
            ),
        ),
        tried=("hwloc 2.9",),
    ),
    Launcher(
        "likwid",
        "likwid-pin",
        "https://github.com/RRZE-HPC/likwid/wiki/Likwid-Pin",
        (_HWTHREADS,),
        _likwid,
        {_HWTHREADS: form(r"[0-9]{1,5}(?:,[0-9]{1,5})*", 8192)},
        tried=("likwid 5.2",),
    ),
)
