"""One remedy of docs/verdicts.md, carried out: a container that gets ill, is treated, and is judged at every tick."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from commands import Lab, Started, cgroups, ending
from numaudit.containermanager.memory.state import Block, MachineState
from numaudit.engine.observer import Observer
from numaudit.engine.overhead import Limiter
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.findings import Finding, find
from numaudit.evaluation.verdicts import Verdict
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.kernel.host import Host
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.migrations import MIGRATIONS
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import Container, ContainerId, Snapshot
from numaudit.topology.nodeset import CpuSet, NodeSet
from samples import PATIENCE, balancing, scans_every
from workload import MIB, TOUCH, Cgroup, Worker, cgroup, worker

SIZE = 16 * MIB
PARENT = "numaudit-remedies"
NOT_HERE: Mapping[str, str] = {
    "Correct the name": "it needs a kubelet that starts again",
    "set the old amount": "it needs an API server that resizes a pod",
    "create the pod again": "it needs an API server that resizes a pod",
    "Find out who wrote to its cpuset": "the kernel does not record it, and knowing it changes nothing",
    "See its causes": "those have rows of their own",
    "use machines with larger nodes": "the guest's nodes have the size with which it booted",
    "reserve more of it for the system": "a setting of the kubelet's, which counts from its next start",
    "off the node: with a policy of bind": "to fill a guest's node that far makes the kernel kill a process",
    "add CAP_SYS_NICE to the container": "runtimes look at it when they make the filter, and the guest has none",
    "See docs/dra.md for the drivers": "reading it changes no container",
    "Where a CDI file is missing, see that the driver": "the guest has no DRA driver",
    "Compare /sys/devices/system/node": "no kernel of a guest shows a machine with CPUs on no node",
    "name fewer probes": "the agent is started with them, and a probe that does not run costs nothing",
    "Update or correct the device plugin": "there is none in a guest",
    "Write CPUs of the promised nodes to /proc/irq": "test_devices.py does, on a machine that has devices",
    "Bind the rank to the node of its device": "the guest has no GPU and no adapter that a rank would open",
    "let the launcher spread them": "the guest runs no launcher that would bind all ranks to one node",
    "give it a device of its node": "the guest has no GPU and no adapter that a rank would open",
    **dict.fromkeys(
        (
            "a Guaranteed pod",
            "make the pod Guaranteed",
            "make them Guaranteed",
            "The memory manager frees it at the next admission of any pod",
            "restart the kubelet with the node drained",
            "raise --reserved-memory of these NUMA nodes",
            "Drain the node, stop the kubelet, delete the file, start the kubelet",
            "The running kubelet writes the file again with its next promise",
            "drain the node before the kubelet restarts",
            "Repair what the message names before the kubelet restarts",
            "Drain the pods that are named before the kubelet restarts",
            "undo the change of its configuration",
            "The kubelet's log has gaps (rotation",
            "raise RateLimitBurst for the kubelet's unit or keep more of its log",
            "Compare the sources that are named; the kubelet may just have restarted",
            "Use the Topology Manager policy restricted or single-numa-node, and recreate the pod",
        ),
        "the guest has no kubelet, which would do it",
    ),
}
"""Words of docs/verdicts.md that ask for what no guest can do, and why it cannot."""
NO_ADVICE = (
    "Do as `numaudit setup` says",
    "What is allocated counts, not the wish",
    "A kubelet passes over fields that it does not know",
    "Nothing is wrong",
    "No verdict that depends on these CPUs",
    "Nothing has to be done",
    "Nothing else helps",
    "A Guaranteed pod with a fraction of a CPU runs",
    "Without that option it may run on all CPUs",
    "Until then",
    "says more",
    "Pods that it refused may be missing here",
    "Memory was often put there before the cpuset was set",
    "by a process that has ended",
)
"""Of sentences that say what is so, and not what to do."""


@dataclass(slots=True)
class Stage:
    """One container and its ticks, as the agent takes them."""

    observer: Observer
    session: Session
    stack: contextlib.ExitStack
    mems: str = "0"
    """Promised; empty = nothing was."""
    cpus: str | None = None
    """Promised; None = not known."""
    size: int = SIZE
    """Bytes that are promised."""
    huge: int = 0
    """Bytes of 2 MiB pages that are promised beside them."""
    promised_by_run: Promise | None = None
    """What `numaudit run` gave; None = it is a pod's container."""
    machine: MachineState | None = None
    """The memory map; None = nothing is asked about it."""
    ticks: int = 0
    running: Worker | None = None
    """The one that the cure needs."""
    limiter: Limiter | None = None
    """Of the agent, where the remedy is about it."""
    ill: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """What a cure may end."""
    group: Cgroup = field(init=False)
    verdict: Verdict = field(init=False)
    findings: Sequence[Finding] = ()
    """About the container, and about none."""
    _container: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _last: Snapshot | None = None
    _judged: Judgements | None = None

    def create(self, cpus: str = "0", mems: str = "0") -> None:
        """The container, instead of the one before."""
        self._end()
        self.group = self._container.enter_context(cgroup(f"{PARENT}/container", cpus, mems))

    def command(self, *options: str, **settings: object) -> Started:
        """A command of `numaudit run` that holds SIZE bytes, instead of what was before. It is promised what it got."""
        self._end()
        lab = Lab.below(Path(self._container.enter_context(tempfile.TemporaryDirectory())), **settings)
        started = lab.start(64, *TOUCH, str(SIZE), options=options)
        self._container.enter_context(ending(started))
        self._container.callback(started.end)
        assert started.line().startswith("ready ")
        (path,) = cgroups()
        self.group, self.promised_by_run = Cgroup(path), lab.promise()
        return started

    def worker(
        self,
        size: int = SIZE,
        policy: str | None = None,
        file: Path | None = None,
        nodes: Sequence[int] = (1,),
        threads: int = 1,
    ) -> Worker:
        kind, of_policy = ("anon" if file is None else "shmem"), nodes if policy else ()
        return self._container.enter_context(
            worker(self.group, size, kind, policy, of_policy, file=file, threads=threads)
        )

    def run(self, *command: str) -> None:
        """In the container's cgroup, to its end."""
        with self.start(*command) as process:
            process.communicate()
            assert process.returncode == 0

    def start(self, *command: str) -> subprocess.Popen[str]:
        joining = ("/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.group.path / "cgroup.procs"))
        return subprocess.Popen([*joining, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def pids(self) -> list[str]:
        return self.group.read("cgroup.procs").split()

    def named(self) -> set[str]:
        """Its verdict, causes and findings."""
        return {self.verdict.name, *(one.cause for one in self.verdict.causes), *(one.name for one in self.findings)}

    def tick(self) -> None:
        readings = ProbeReadings(self.session)
        snapshot = self._promised(self.observer.observe(5.0, readings))
        judged = judge(snapshot, self._last, self._judged)
        if self.limiter is not None:
            snapshot = replace(snapshot, overhead=self.limiter.after_tick(snapshot, judged, readings))
        self._last, self._judged = snapshot, judged
        key = ContainerId(self.group.id)
        self.verdict = judged.verdicts[key]
        self.findings = [one for one in find(snapshot, judged) if one.container_id in (key, None)]
        self.ticks += 1

    def until(self, is_so: Callable[[], bool]) -> None:
        """Take ticks until this holds; `ticks` is then their number."""
        self.ticks, deadline = 0, time.monotonic() + PATIENCE
        while True:
            self.tick()
            if is_so():
                return
            assert time.monotonic() < deadline, (self.verdict, self.findings)
            time.sleep(0.5)

    def _end(self) -> None:
        self._container.close()
        self._container = self.stack.enter_context(contextlib.ExitStack())
        self.promised_by_run = None

    def _promised(self, snapshot: Snapshot) -> Snapshot:
        key = ContainerId(self.group.id)
        (one,) = [one for one in snapshot.containers if one.id == key]
        if self.promised_by_run is not None:
            own = ContainerIntent("run", "run", cgroups=(key,), promise=self.promised_by_run)
            config = KubeletConfig(memory_manager_policy="Static")
            return replace(
                snapshot, containers=(one,), intent=Intent((own,), promised_by="numaudit run", config=config)
            )
        if not self.mems:
            return replace(snapshot, containers=(one,))
        return replace(snapshot, containers=(_of_a_pod(one),), intent=self._intent(key))

    def _intent(self, key: ContainerId) -> Intent:
        nodes = NodeSet.parse(self.mems)
        memory = [Block.of("memory", self.size, nodes)]
        memory += [Block.of("hugepages-2Mi", self.huge, nodes)] if self.huge else []
        promise = Promise(tuple(memory), None if self.cpus is None else CpuSet.parse(self.cpus))
        own = ContainerIntent("uid", "app", cgroups=(key,), promise=promise)
        return Intent((own,), machine=self.machine, config=KubeletConfig(memory_manager_policy="Static"))


def _of_a_pod(container: Container) -> Container:
    return replace(container, kind="container", qos="Guaranteed", pod_uid="uid", name="app")


Step = Callable[[Stage], None]


def run_the_commands(stage: Stage) -> None:
    """Those that the verdict has, as somebody would paste them."""
    assert stage.verdict.commands
    for command in stage.verdict.commands:
        subprocess.run(["/bin/sh", "-c", command], check=True)


@dataclass(frozen=True, slots=True)
class Row:
    """One remedy."""

    of: str
    """The verdict, cause or finding that must go."""
    remedy: str
    """Words of the remedy in docs/verdicts.md, or in the verdict's own."""
    harm: Step
    """Makes a container of which it holds."""
    cure: Step
    """Does what the remedy says."""
    cured: str = "aligned"
    """The verdict afterwards."""
    left: Sequence[str] = ()
    """Causes that it has then."""
    said: str = ""
    """Words of the remedy where the container gets others than the page has."""
    ticks: int | None = None
    """It is gone at this tick after the remedy, at the latest. None = what happens takes time."""
    balancing: str = "0"
    """kernel.numa_balancing: 1 where it must sample or move pages, and 0 where it would disturb."""
    one_kernel: bool = False
    """No kernel changes what it shows."""

    @property
    def name(self) -> str:
        return f"{self.of}-{self.cure.__name__}"


@contextlib.contextmanager
def opened() -> Iterator[Session]:
    with Session.open(Host(), (CPU_TIME, MIGRATIONS, HINT_FAULTS), cgroups=500, nodes=16) as session:
        yield session


def carry_out(row: Row, session: Session) -> None:
    """Harm a container, see that this is found and the remedy is said, carry that out, and see the verdict turn."""
    with balancing(row.balancing), contextlib.ExitStack() as stack:
        if row.balancing == "1":  # else Linux 6.12 scans seldom, and what it has seen stays the answer until then
            stack.enter_context(scans_every(100))
        stage = Stage(Observer.of(Host()), session, stack)
        stack.enter_context(stage.ill)
        row.harm(stage)
        stage.until(lambda: row.of in stage.named())
        said = {stage.verdict.name: stage.verdict.remedy or "", **{one.name: one.remedy for one in stage.findings}}
        assert row.of not in said or (row.said or row.remedy) in said[row.of], (stage.verdict, stage.findings)
        row.cure(stage)
        stage.until(lambda: row.of not in stage.named() and stage.verdict.name != "unknown")
        causes = [one.cause for one in stage.verdict.causes]
        assert (stage.verdict.name, causes) == (row.cured, list(row.left)), stage.verdict
        assert row.ticks is None or stage.ticks <= row.ticks, f"it took {stage.ticks} ticks"


def parameters(rows: Sequence[Row]) -> list[pytest.ParameterSet]:
    """The rows as parameters of a test."""
    marks = {True: (pytest.mark.one_kernel,), False: ()}
    return [pytest.param(row, id=row.name, marks=marks[row.one_kernel]) for row in rows]
