"""Every hint, merge, allocation, denial and checkpoint that a real kubelet logged comes out the same here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from msgspec.structs import replace

from kubelets.recorded import (
    RUNS,
    LoggedAdmission,
    LoggedRelease,
    LoggedStart,
    as_logged,
    hint_as_logged,
    read_configuration,
    read_events,
    read_machine,
    read_pods,
)
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats import seal
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.containermanager.memory.state import MemoryState
from numaudit.containermanager.pod.spec import Pod, qos
from numaudit.memorymanager.admission import NodeState, admit, reconcile, remove
from numaudit.memorymanager.kubelet import Kubelet, read_kubelet
from numaudit.memorymanager.manager import StartRefused, fresh_state, restart, start

SINGLE = "standalone-single-numa-node"
STEPS: dict[str, dict[str, str]] = {
    SINGLE: {"default/gu-toobig-numanode": "1-running", "": "3-removed-gu-two"},
    "standalone-restricted": {"default/gu-cross2-numanode": "1-cross", "": "2-more"},
    "standalone-pod-level-resources": {"": "1"},
    "standalone-log-verbosity-0": {"": "1"},
    "standalone-restart-errors": {"": "1"},
}
"""Run -> the pod before whose admission the files of a step were copied ("" = the end of the log) -> step."""


def set_up(run: str, configuration: str = "kubelet-config.k1.yaml") -> Kubelet:
    kubelet, notices = read_kubelet(read_configuration(run, configuration), read_machine(run))
    assert notices == ()
    return kubelet


def replay(run: str, kubelet: Kubelet, pods: Mapping[str, Pod]) -> Iterator[tuple[str, NodeState]]:
    """Play a log; yields the state before each admission (with the pod's name) and at the end."""
    state = fresh_state(kubelet)
    events = read_events(run, "kubelet.k1.log")
    for index, event in enumerate(events):
        if isinstance(event, LoggedAdmission):
            yield event.pod, state
            state = check_admission(kubelet, state, pods[event.pod], event)
        elif isinstance(event, LoggedStart):
            uid = pods[event.pod].uid
            state, pins = start(kubelet, state, uid, event.container)
            assert pins.cpuset_mems == ",".join(map(str, event.nodes))
        elif isinstance(event, LoggedRelease):
            if event.pod_uid in state.pods:
                state = remove(state, event.pod_uid)
            following = events[index + 1] if index + 1 < len(events) else None
            if not isinstance(following, LoggedRelease):
                state = reconcile(state)
                assert state.cpu is not None
                assert str(state.cpu.default_cpus) == event.default_cpus
    yield "", state


def check_admission(kubelet: Kubelet, state: NodeState, pod: Pod, logged: LoggedAdmission) -> NodeState:
    admission = admit(kubelet, state, pod)
    compare(admission.decisions, logged)
    rejection = admission.rejection
    assert (None if rejection is None else (rejection.reason, rejection.message)) == logged.denied
    check_cpus(admission.state, logged)
    return admission.state


def compare(decisions: object, logged: LoggedAdmission) -> None:
    assert isinstance(decisions, tuple)
    assert [one.container for one in decisions] == [one.container for one in logged.merges]
    for ours, theirs in zip(decisions, logged.merges, strict=True):
        assert [as_logged(answer.hints) for answer in ours.answers] == theirs.answers
        assert hint_as_logged(ours.merged) == theirs.best


def check_cpus(state: NodeState, logged: LoggedAdmission) -> None:
    assert state.cpu is not None
    for (uid, container), cpus in logged.cpus.items():
        assert str(state.cpu.entries[uid][container]) == cpus
    if logged.default_cpus is not None:
        assert str(state.cpu.default_cpus) == logged.default_cpus


def check_files(run: str, step: str, state: NodeState, *, pod_level: bool) -> None:
    """The files hold what the kubelet wrote, byte for byte, once the blocks inside a container are in its order."""
    data = (RUNS / run / step / "memory_manager_state").read_bytes()
    theirs = memory_checkpoint.parse(data)
    ours = in_order_of(theirs.state, state.memory.state)
    assert ours == theirs.state
    assert seal.write(MemoryCheckpoint.of("Static", ours, pod_level=pod_level)) == data
    assert state.cpu is not None
    data = (RUNS / run / step / "cpu_manager_state").read_bytes()
    written = CpuCheckpoint.of("static", state.cpu, pod_level=pod_level)
    assert seal.write(written) == data


def in_order_of(theirs: MemoryState, ours: MemoryState) -> MemoryState:
    entries = {
        uid: {
            name: tuple(sorted(blocks, key=lambda b: [one.type for one in theirs.entries[uid][name]].index(b.type)))
            for name, blocks in containers.items()
        }
        for uid, containers in ours.entries.items()
    }
    return replace(ours, entries=entries)


@pytest.mark.parametrize("run", STEPS)
def test_a_recorded_run_comes_out_the_same(run: str) -> None:
    kubelet = set_up(run)
    pods = read_pods(run)
    compared = []
    for pod, state in replay(run, kubelet, pods):
        if pod in STEPS[run]:
            check_files(run, STEPS[run][pod], state, pod_level=kubelet.features.manages_pod_level)
            compared.append(pod)
    assert compared == list(STEPS[run])


def test_the_recorded_runs_are_compared_whole() -> None:
    events = [event for run in STEPS for event in read_events(run, "kubelet.k1.log")]
    admissions = [one for one in events if isinstance(one, LoggedAdmission)]
    assert len(admissions) == 23
    assert sum(len(one.merges) for one in admissions) == 26
    assert sum(len(merge.answers) for one in admissions for merge in one.merges) == 78
    assert sum(1 for one in admissions if one.denied) == 6


def test_a_restarted_kubelet_admits_its_pods_again_as_recorded() -> None:
    """An ended init container's memory comes back, a removed pod's entry stays, hints are regenerated."""
    pods = read_pods(SINGLE)
    *_, (_, state) = replay(SINGLE, set_up(SINGLE), pods)
    events = read_events(SINGLE, "kubelet.k2.log")
    logged = [one for one in events if isinstance(one, LoggedAdmission)]
    kubelet = set_up(SINGLE, "kubelet-config.k2.yaml")
    state, admissions = restart(kubelet, state, [pods[one.pod] for one in logged])
    for ours, theirs in zip(admissions, logged, strict=True):
        compare(ours.decisions, theirs)
        rejection = ours.rejection
        assert (None if rejection is None else (rejection.reason, rejection.message)) == theirs.denied
        check_cpus(ours.state, theirs)
    state = reconcile(state)
    check_files(SINGLE, "4-kubelet-restarted", state, pod_level=False)


def test_a_kubelet_whose_huge_pages_changed_does_not_start_as_recorded() -> None:
    run = "standalone-restart-errors"
    kubelet = set_up(run)
    *_, (_, state) = replay(run, kubelet, read_pods(run))
    restart(kubelet, state)
    node = kubelet.machine.nodes[0]
    fewer = replace(node, huge_pages=(replace(node.huge_pages[0], total=12), node.huge_pages[1]))
    changed = replace(kubelet, machine=replace(kubelet.machine, nodes=(fewer, *kubelet.machine.nodes[1:])))
    with pytest.raises(StartRefused) as refusal:
        restart(changed, state)
    assert str(refusal.value) == "[memorymanager] the expected machine state is different from the real one"
    assert str(refusal.value) in (RUNS / run / "kubelet.k2-machine-changed.log").read_text()


def test_the_computed_qos_is_the_recorded_one() -> None:
    for run in STEPS:
        features = set_up(run).features
        for pod in read_pods(run).values():
            assert pod.status_qos is not None
            assert qos(replace(pod, status_qos=None), features) == pod.status_qos
