"""Values of what a process was told about its placement, and of what a tick has of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Literal

from msgspec import Struct, field

from numaudit.encoding.value import Value
from numaudit.ranks.lists import Unresolved
from numaudit.topology.nodeset import CpuSet, NodeSet

PolicyKind = Literal[
    "bind", "preferred", "preferred-many", "interleave", "weighted-interleave", "local", "bound", "any"
]
"""`bound`: bind or preferred, as the launcher finds it allowed. `any`: some policy, whichever."""
Runtime = Literal["openmp", "mpi"]
"""A runtime that follows variables of its environment."""
_ONE_CHILD = re.compile(r"timeout|sudo|doas|tini|dumb-init|catatonit", re.ASCII)
"""Programs that go on living beside the command that they run, and run no other."""
_BUILTINS = frozenset(("true", ":", "wait", "exit", "cd", "export", "set", "ulimit", "umask", "trap", "echo"))
"""Of a shell: commands that start no process which stays."""


class Declaration(Value, frozen=True):
    """Placement that one launcher declared for a process. Never holds text of a command line or an environment."""

    launcher: str
    """Its name in the table of launchers."""
    source: str
    """The option or variable that says so, without its value."""
    where: Literal["environment", "arguments", "ancestor", "unit", "runtime", "itself"]
    """Environment or arguments of the process, arguments of a living ancestor in its container, its systemd unit, the
    runtime's configuration, or nothing but the policy in force (`itself`)."""
    policy: PolicyKind | None = None
    """Declared memory policy; null = none."""
    memory_nodes: NodeSet | None = None
    """Declared nodes of memory; null = none by name."""
    cpus: CpuSet | None = None
    """Declared CPUs; null = none by name."""
    one_node: bool = False
    """Are its CPUs to be on a single node, whichever it is?"""
    memory_of: Literal["process", "mappings", "huge-pages"] = "process"
    """Bearer of the policy: the threads, single mappings, or nobody, as of huge pages that a library places one by
    one."""
    threads: Literal["all", "main"] = "all"
    """Threads that the declared CPUs hold for; `main` where each thread may have CPUs of its own."""
    unresolved: str | None = None
    """Reason why the nodes or CPUs are not known; null = they are, or none were declared."""
    doubt: str | None = None
    """Reason why another program may have changed it since, so that a difference is not known to be wrong; null = it
    holds for the process."""

    @property
    def has_memory(self) -> bool:
        return self.policy is not None or self.memory_nodes is not None

    @property
    def has_cpus(self) -> bool:
        return self.cpus is not None or self.one_node

    @property
    def has_placement(self) -> bool:
        """Does it declare anything, be it known or not? Ray's does not: it only names an actor."""
        return self.has_memory or self.has_cpus or self.unresolved is not None


class NodesOfCpus(Struct, frozen=True):
    """The CPUs of each node."""

    cpus_of: Mapping[int, CpuSet]
    """Node -> all of its CPUs."""

    def cpus_on(self, nodes: NodeSet) -> CpuSet:
        found = CpuSet()
        for node in nodes:
            found |= self.cpus_of.get(node, CpuSet())
        return found

    def nodes_of(self, cpus: CpuSet) -> NodeSet:
        return NodeSet.from_ids(node for node, own in self.cpus_of.items() if not own.isdisjoint(cpus))


class Placeable(NodesOfCpus, frozen=True):
    """Nodes and CPUs that a process may be placed on: its container's, where these are known."""

    nodes: NodeSet
    """Allowed nodes with memory."""
    cpus: CpuSet
    """Allowed CPUs."""


class Given(Struct, frozen=True):
    """One option of a command line that the table knows. Nothing else of a command line is kept."""

    program: str
    """Kind of program, as the table names it."""
    occurrence: int
    """0 for the first program of that kind in the command line, ..."""
    option: str
    value: str
    """Of the option's own form; empty for a switch."""


class Command(Struct, frozen=True):
    """A command that a process starts: launchers that become another program, and that program."""

    starts: tuple[str, ...] = ()
    """Names of the programs that it runs, the script of an interpreter included."""
    given: tuple[Given, ...] = ()
    """Options of its launchers."""


class Launched(Struct, frozen=True):
    """A launcher that became a process, or an ancestor of it."""

    given: tuple[Given, ...]
    """Its options."""
    doubt: str | None = None
    """Reason why the program that it named may have changed them; None = it is the one that runs."""

    @property
    def values(self) -> dict[str, str]:
        return {one.option: one.value for one in self.given}


class CommandLine(Struct, frozen=True):
    """The parts of one command line that are kept."""

    names: tuple[str, ...] = ()
    """Names of the program that runs, the script of an interpreter included."""
    given: tuple[Given, ...] = ()
    """Options of programs that go on living."""
    commands: tuple[Command, ...] = ()
    """Commands with launchers; of a shell's text, all commands."""
    is_shell: bool = False
    """Are they of a shell's text?"""

    @property
    def only_command(self) -> Command | None:
        """The command that its child runs, whatever that becomes; None = it may have several children."""
        if not self.is_shell and not any(_ONE_CHILD.fullmatch(one) for one in self.names[:1]):
            return None
        found = [one for one in self.commands if not _BUILTINS.issuperset(one.starts)]
        return found[0] if len(found) == 1 else None


class Runtimes(Struct, frozen=True):
    """Runtimes of a process that follow variables of its environment."""

    loaded: frozenset[Runtime]
    """Those whose library it has mapped."""
    threads: int


class Told(Struct, frozen=True):
    """The parts of command lines and of an environment that the table knows."""

    own: CommandLine = CommandLine()
    """Of the process."""
    ancestors: tuple[CommandLine, ...] = ()
    """Of each living ancestor in the same container, the nearest first."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment at its last execve(2): allow-listed keys alone."""
    runtimes: Runtimes | str = "its mappings were not read"
    """Or the reason why they are not known."""
    unit: Mapping[str, str] = field(default_factory=dict)
    """NUMAPolicy, NUMAMask and CPUAffinity of the systemd unit that it belongs to."""
    runtime: Mapping[str, str] = field(default_factory=dict)
    """`mode` and `nodes` of linux.memoryPolicy in the runtime's configuration of its container."""

    @property
    def local_rank(self) -> int | None:
        return self._number(LOCAL_RANKS)

    @property
    def rank(self) -> int | None:
        """Its number in the whole job, or else on this host."""
        found = self._number(GLOBAL_RANKS)
        return self.local_rank if found is None else found

    def _number(self, keys: tuple[str, ...]) -> int | None:
        return next((int(self.environment[key]) for key in keys if self.environment.get(key, "").isdigit()), None)

    def runs(self, runtime: Runtime, variable: str) -> bool:
        """Does it run the runtime that a variable is for? OpenMP places nothing before it has a second thread.

        Raises Unresolved.
        """
        if isinstance(self.runtimes, str):
            raise Unresolved(f"{variable} counts only where its runtime is loaded: {self.runtimes}")
        return runtime in self.runtimes.loaded and (runtime == "mpi" or self.runtimes.threads > 1)

    def arguments(self, program: str) -> tuple[list[Given], Literal["arguments", "ancestor"]] | None:
        """The options of a program: of the process itself, or else of the nearest ancestor that has some."""
        own = [one for one in self.own.given if one.program == program]
        if own:
            return own, "arguments"
        return self.ancestor(program)

    def ancestor(self, program: str) -> tuple[list[Given], Literal["ancestor"]] | None:
        """The options of a program in the command line of the nearest ancestor that has some."""
        for line in self.ancestors:
            found = [one for one in line.given if one.program == program]
            if found:
                return found, "ancestor"
        return None

    def launched_by(self, program: str) -> Launched | None:
        """The options of a program that became this process, or an ancestor of it, as the one above that shows.

        Of a shell's text only the command counts that runs the shell's own child. Of the only child of another one its
        only command counts, too, though the program that it names became another one. Raises Unresolved where commands
        that run it differ in these options.
        """
        below = [self.own.names]
        for line in self.ancestors:
            names = frozenset(below[-1] if line.is_shell else chain.from_iterable(below))
            below.append(line.names)
            found = [
                (len(names.intersection(one.starts)), tuple([given for given in one.given if given.program == program]))
                for one in line.commands
            ]
            most = max((count for count, _ in found), default=0)
            best = {given for count, given in found if count == most > 0}
            if len(best) > 1:
                raise Unresolved(f"an ancestor's command line starts it twice, with different options of {program}")
            if best and (given := best.pop()):
                return Launched(given)
            only = line.only_command
            if most == 0 and only is not None and (given := tuple(one for one in only.given if one.program == program)):
                return Launched(given, f"the program that {program} started has become another one, or started it")
        return None


GLOBAL_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
LOCAL_RANKS = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
)
RANK_KEYS = (*GLOBAL_RANKS, *LOCAL_RANKS)
"""Variables that number ranks."""


def common_value(found: list[Given], option: str) -> str | None:
    """The value of an option; None = it is missing, or programs of the same kind in one command line differ in it."""
    by_program: dict[int, str] = {one.occurrence: one.value for one in found if one.option == option}
    values = set(by_program.values())
    return values.pop() if len(values) == 1 and len(by_program) == len({one.occurrence for one in found}) else None


DeviceKind = Literal["gpu", "vfio", "infiniband", "network", "storage", "other"]
"""Kind of a PCI device: an accelerator, one that is passed through by VFIO, an adapter of InfiniBand or RoCE, another
network adapter, a disk or its controller, or another one."""
_IN_WORDS: Mapping[DeviceKind, str] = {
    "gpu": "GPU",
    "vfio": "VFIO device",
    "infiniband": "InfiniBand adapter",
    "network": "network adapter",
    "storage": "storage device",
    "other": "device",
}


class HeldDevice(Value, frozen=True):
    """A PCI device that a process has open."""

    kind: DeviceKind
    """gpu: an accelerator; vfio: a device that is passed through; infiniband: an adapter of InfiniBand or RoCE."""
    address: str
    """PCI address."""
    numa_node: int | None
    """null = the firmware does not say."""

    @property
    def in_words(self) -> str:
        """GPU 0000:3b:00.0, for people."""
        return f"{_IN_WORDS[self.kind]} {self.address}"


class ProcessTold(Value, frozen=True):
    """Declarations of one process, and its devices."""

    pid: int
    rank: int | None
    """Number in its job; null = its environment shows none, or may not be read."""
    declarations: tuple[Declaration, ...]
    """Of its memory and of its CPUs, or one of both; empty = none was found."""
    devices: tuple[HeldDevice, ...] = ()
    """Of a process with a declaration or a number."""
    unread: str | None = None
    """Reason why its environment was not read; null = it was."""
