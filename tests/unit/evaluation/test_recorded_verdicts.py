"""Recorded moments of a real kubelet judged whole: outcomes as its own log says them, verdicts, findings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from kubelets.recorded import LoggedAdmission, LoggedMerge, read_events, read_machine
from kubelets.steps import LOGS, STEPS, Step
from numaudit.checkpoints.formats.memory import parse
from numaudit.cli.observe.report_work import observe_whole
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.engine.observer import Observer
from numaudit.evaluation.alignment import judge
from numaudit.evaluation.findings import find
from numaudit.evaluation.hint_outcomes import HintOutcome, outcomes
from numaudit.intent.kubelet import KubeletSeries
from numaudit.intent.node import Intent
from numaudit.kernel.host import Host
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.report.build import build
from numaudit.report.values import ContainerReport, Report
from numaudit.snapshot import Allowed, Container, ContainerId, Resident, Snapshot
from numaudit.topology.nodeset import NodeSet

SINGLE = "standalone-single-numa-node"
NUMA_REJECTIONS = {
    AdmissionOutcome.REJECTED_AFFINITY,
    AdmissionOutcome.REJECTED_CAPACITY,
    AdmissionOutcome.REJECTED_GROUP_RULE,
    AdmissionOutcome.REJECTED_PREFERRED_EXTENSION,
}


@dataclass
class Moment:
    """One step, observed once."""

    snapshot: Snapshot
    intent: Intent
    report: Report

    def verdicts(self) -> dict[str, str]:
        return {
            f"{(one.pod or '').removesuffix('-numanode')}/{one.container}": one.verdict.name
            for one in self.report.containers
            if one.verdict is not None
        }

    def findings(self, name: str) -> set[tuple[str | None, str | None]]:
        """Pod and container of each finding of a name."""
        pods = self.intent.pods or {}
        names = {uid: pod.name.removesuffix("-numanode") for uid, pod in pods.items()}
        return {
            (names.get(one.pod_uid or "", one.pod_uid), one.container)
            for one in self.report.findings
            if one.name == name
        }


def moment(step: str, tmp_path: Path) -> Moment:
    recorded = Step(step)
    host = recorded.tree(tmp_path / "tree")
    found = IntentCollector(host).ask(recorded.containers())
    cpusets = recorded.cpusets()
    machine = read_machine(step.partition("/")[0])
    everywhere, all_cpus = NodeSet.of(0, 1, 2, 3), found.intent.shared_cpus
    snapshot = Snapshot(
        taken_at=0.0,
        machine=machine,
        cgroup_mode="v2",
        containers=found.containers,
        # An empty cpuset lets a container use what its parent may.
        allowed={id_: Allowed(one.mems or everywhere, one.cpus or all_cpus) for id_, one in cpusets.items()},
        residency=memory(recorded, found.containers),
        intent=found.intent,
    )
    return Moment(snapshot, found.intent, build(snapshot, judge(snapshot, earlier=judge(snapshot))))


def memory(step: Step, containers: tuple[Container, ...]) -> dict[ContainerId, Resident]:
    """Where each container's bytes were."""
    lines = step.read("cgroup-memory.txt").decode().splitlines()
    by_path = {f"/{path}": fields for path, *fields in (line.split(" ") for line in lines)}
    found = {}
    for one in containers:
        kinds = dict(field.split("=") for field in by_path[one.path])
        anon, shmem = (
            {node: int(size) for node, size in enumerate(kinds[kind].split(","))} for kind in ("anon", "shmem")
        )
        found[one.id] = Resident(anon=anon, shmem=shmem)
    return found


def admissions(step: str) -> dict[str, LoggedAdmission]:
    """The admission of each pod that counts, by the small parser of these tests: the last one that was decided
    by hints. A restarted kubelet admits what it finds in its checkpoint; that decides nothing."""
    run = step.partition("/")[0]
    found: dict[str, LoggedAdmission] = {}
    for log in LOGS[step]:
        for event in read_events(run, log):
            if isinstance(event, LoggedAdmission) and (event.denied or event.pod not in found):
                found[event.pod] = event
    return found


def pods_of(step: str) -> dict[str, str]:
    """Name -> UID of every pod that the kubelet listed."""
    items = json.loads(Step(step).read("pods.json"))["items"]
    return {f"{one['metadata']['namespace']}/{one['metadata']['name']}": one["metadata"]["uid"] for one in items}


@pytest.mark.parametrize("step", STEPS)
def test_every_pods_outcome_agrees_with_the_kubelets_own_log(step: str, tmp_path: Path) -> None:
    """Admitted or not, the reason in the kubelet's words, and the node mask of the best hint."""
    logged, listed = admissions(step), pods_of(step)
    found = outcomes(moment(step, tmp_path).intent)
    refused = {f"{one.namespace}/{one.pod}": one for one in found if one.container is None}
    admitted = {f"{one.namespace}/{one.pod}": one for one in found if one.container is not None}
    assert set(refused) == {name for name, one in logged.items() if one.denied}
    for name, one in refused.items():
        assert (one.reason, one.message) == logged[name].denied
        assert one.source == "log"
        assert one.outcome in NUMA_REJECTIONS
        best = logged[name].merges[-1].best
        assert isinstance(best, dict)
        assert (None if one.numa_nodes is None else one.numa_nodes.mask) == best["NUMANodeAffinity"]
    compared = 0
    for name in listed:
        if name in refused:
            assert name not in admitted
            continue
        for merge in logged[name].merges:
            for one in outcomes_of(found, name, merge):
                compared += one.source == "log"
                check(one, merge)
    assert compared >= sum(1 for name in listed if name.startswith("default/gu-") and name not in refused)


def outcomes_of(found: tuple[HintOutcome, ...], pod: str, merge: LoggedMerge) -> list[HintOutcome]:
    """Of the container that a merge was for; of all containers under pod scope."""
    of_pod = [one for one in found if f"{one.namespace}/{one.pod}" == pod]
    return [one for one in of_pod if merge.container in (None, one.container)]


def check(one: HintOutcome, merge: LoggedMerge) -> None:
    best = merge.best
    assert isinstance(best, dict)
    if one.outcome is AdmissionOutcome.NOT_MANAGED:
        # It asked the memory manager for nothing, so that one had no preference.
        assert not merge.answers[-1]
        return
    assert one.source == "log"
    assert one.numa_nodes is not None
    assert one.numa_nodes.mask == best["NUMANodeAffinity"]
    assert best["Preferred"] is (one.outcome in (AdmissionOutcome.ALIGNED_SINGLE, AdmissionOutcome.ALIGNED_MULTI))


@pytest.mark.parametrize(
    ("step", "unexpected"),
    [(f"{SINGLE}/2-rejected", set()), (f"{SINGLE}/4-kubelet-restarted", {"gu-cross", "gu-nomem"})],
)
def test_the_same_pods_are_refused_for_two_reasons_and_both_are_numa_rejections(
    step: str, unexpected: set[str], tmp_path: Path
) -> None:
    """The restarted kubelet met other groups of nodes, so the memory manager had no hint to offer and failed later."""
    found = outcomes(moment(step, tmp_path).intent)
    refused = {
        (one.pod or "").removesuffix("-numanode"): (one.reason, one.outcome) for one in found if not one.container
    }
    affinity = ("TopologyAffinityError", AdmissionOutcome.REJECTED_AFFINITY)
    capacity = ("UnexpectedAdmissionError", AdmissionOutcome.REJECTED_CAPACITY)
    pods = ("gu-toobig", "gu-cross", "gu-manycpu", "gu-nomem")
    assert refused == {pod: capacity if pod in unexpected else affinity for pod in pods}


RUNNING = {
    "be/app": "unmanaged",
    "bu/app": "unmanaged",
    "gu-frac/app": "aligned",
    "gu-huge/app": "aligned",
    "gu-init/app": "aligned",
    "gu-sidecar/app": "aligned",
    "gu-sidecar/side": "aligned",
    "gu-small/app": "aligned",
    "gu-two/a": "aligned",
    "gu-two/b": "aligned",
}
RECORDED = RUNNING | {"gu-huge/app": "unknown"}
"""Where huge pages were was not recorded."""
WITHOUT_TWO = {name: verdict for name, verdict in RECORDED.items() if not name.startswith("gu-two/")} | {
    "gu-frac/app": "cpu-remote"
}
"""The CPUs that gu-two gave back, of node 1, went to the shared pool, on which gu-frac runs."""
VERDICTS = {
    f"{SINGLE}/1-running": RECORDED,
    f"{SINGLE}/2-rejected": RECORDED,
    f"{SINGLE}/3-removed-gu-two": WITHOUT_TWO,
    f"{SINGLE}/4-kubelet-restarted": WITHOUT_TWO,
    "standalone-restricted/1-cross": {"gu-cross3/app": "split"},
    "standalone-restricted/2-more": {"gu-cross3/app": "split", "gu-small/app": "aligned", "gu-cross2/app": "aligned"},
    "standalone-log-verbosity-0/1": {"gu-small/app": "aligned", "bu/app": "unmanaged"},
    "standalone-restart-errors/1": {"gu-small/app": "aligned"},
    "standalone-pod-level-resources/1": {
        "gu-small/app": "aligned",
        "pl-mixed/pinned": "aligned",
        "pl-mixed/shared": "aligned",
        "pl-only/a": "aligned",
        "pl-only/b": "aligned",
    },
}


@pytest.mark.parametrize("step", VERDICTS)
def test_every_container_of_a_recorded_moment_has_its_verdict(step: str, tmp_path: Path) -> None:
    assert moment(step, tmp_path).verdicts() == VERDICTS[step]


def test_an_entry_that_outlives_its_pod_is_stale_before_and_after_a_restart(tmp_path: Path) -> None:
    removed = moment(f"{SINGLE}/3-removed-gu-two", tmp_path / "3")
    restarted = moment(f"{SINGLE}/4-kubelet-restarted", tmp_path / "4")
    uid = pods_of(f"{SINGLE}/1-running")["default/gu-two-numanode"]
    assert removed.findings("stale") == {(uid, "a"), (uid, "b")}
    assert restarted.findings("stale") == {(uid, "a"), (uid, "b"), ("gu-init", "init")}


def test_without_the_kubelets_pods_stale_entries_are_found_by_missing_cgroups(tmp_path: Path) -> None:
    step = Step(f"{SINGLE}/3-removed-gu-two")
    host = step.tree(tmp_path / "tree")
    names = {one.id: one for one in IntentCollector(host).ask(step.containers()).containers}
    (host.answers / "pods.json").unlink()
    intent = IntentCollector(host).ask(tuple(names.values())).intent
    uid = pods_of(f"{SINGLE}/1-running")["default/gu-two-numanode"]
    assert {(one.pod_uid, one.name) for one in intent.containers if one.is_stale} == {(uid, "a"), (uid, "b")}


@pytest.mark.parametrize("step", STEPS)
def test_the_log_tells_of_every_refusal_that_the_kubelet_counted(step: str, tmp_path: Path) -> None:
    """The log of a run is whole, so at an early moment it shows more than was counted then."""
    found = moment(step, tmp_path)
    assert found.intent.counters is not None
    assert found.intent.denials is not None
    counted = {
        reason: found.intent.counters.get(KubeletSeries("kubelet_admission_rejections_total", (("reason", reason),)), 0)
        for reason in ("TopologyAffinityError", "UnexpectedAdmissionError")
    }
    assert all(count <= found.intent.denials.get(reason, 0) for reason, count in counted.items())
    assert found.findings("refusals-missed") == set()


def test_a_refusal_that_is_missing_in_the_log_is_found_by_the_kubelets_counter(tmp_path: Path) -> None:
    step = Step(f"{SINGLE}/4-kubelet-restarted")
    host = step.tree(tmp_path / "tree")
    log = host.answers / "kubelet.log"
    lines = log.read_text().splitlines(keepends=True)
    denied = [line for line in lines if "Pod admission denied" in line and "UnexpectedAdmissionError" in line]
    log.write_text("".join(line for line in lines if line != denied[-1]))
    intent = IntentCollector(host).ask(step.containers()).intent
    (missed,) = [one for one in find(Snapshot(0.0, read_machine(SINGLE), "v2", intent=intent)) if not one.pod_uid]
    assert (missed.name, missed.message) == (
        "refusals-missed",
        "the kubelet counted 2 pods refused with UnexpectedAdmissionError since its start, its log shows 1",
    )


def test_pod_level_entries_are_not_counted_beside_their_containers(tmp_path: Path) -> None:
    """Each of two containers repeats the 200 MiB of its pod; the memory map has them once."""
    found = moment("standalone-pod-level-resources/1", tmp_path).intent
    assert found.machine is not None
    reserved = sum(node.memory_map["memory"].reserved for node in found.machine.values())
    pods = parse(Step("standalone-pod-level-resources/1").read("memory_manager_state")).state.pod_entries
    whole = sum(block.size for blocks in pods.values() for block in blocks if block.type == "memory")
    alone = sum(
        block.size
        for one in found.containers
        if one.pod_uid not in pods
        for block in one.promise.memory or ()
        if block.type == "memory"
    )
    assert whole + alone == reserved > 0


@pytest.mark.parametrize("step", STEPS)
def test_no_pause_sandbox_of_a_recorded_moment_is_misaligned(step: str, tmp_path: Path) -> None:
    found = moment(step, tmp_path)
    pinned = {id_ for id_, one in Step(step).cpusets().items() if one.mems}
    misjudged = [one for one in found.report.containers if one.id not in pinned and is_bad(one)]
    assert misjudged == []


def is_bad(one: ContainerReport) -> bool:
    return one.verdict is not None and one.verdict.name in ("drifted", "spilled", "cpu-remote", "remote-access")


def test_the_whole_node_is_judged_and_no_sandbox_of_it(fixtures: Path) -> None:
    report = observe_whole(Observer.of(Host.under(fixtures / "kubernetes-four-nodes")), None, None).report
    judged = {
        f"{(one.pod or '').removesuffix('-numanode')}/{one.container}": one.verdict.name
        for one in report.containers
        if one.kind == "container" and one.verdict is not None
    }
    assert judged == RUNNING
    sandboxes = [one for one in report.containers if one.kind == "sandbox"]
    assert len(sandboxes) == 8
    assert all(one.verdict is None and one.hint_outcome is None for one in sandboxes)
