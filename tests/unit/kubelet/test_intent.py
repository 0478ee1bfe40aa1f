"""What the kubelet promised, by recorded moments of a real one, and with sources taken away."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from kubelets.json_log import as_json
from kubelets.recorded import read_machine
from kubelets.steps import STEPS, Step
from made_up.reports import exposition
from numaudit.checkpoints.formats import device as device_checkpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint
from numaudit.containermanager.memory.state import Block
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.intent.kubelet import SourceName, SourceState
from numaudit.intent.node import ContainerIntent, Intent
from numaudit.kernel.host import Host, KubeletConnection
from numaudit.kubelet.proto.podresources_pb2 import AllocatableResourcesResponse
from numaudit.kubelet.sources import polled, poller
from numaudit.kubelet.sources.client import KubeletAnswers, RecordedKubelet
from numaudit.kubelet.sources.log_follow import FileLog, JournalLog
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.report.build import build
from numaudit.snapshot import Container, Snapshot
from numaudit.topology.nodeset import CpuSet, NodeSet

SINGLE = "standalone-single-numa-node"


@dataclass
class Polled:
    intent: Intent
    containers: tuple[Container, ...]

    def of(self, pod: str, container: str = "app") -> ContainerIntent:
        (one,) = [one for one in self.intent.containers if (one.pod, one.name) == (f"{pod}-numanode", container)]
        return one

    def source(self, name: SourceName) -> SourceState:
        (one,) = [one for one in self.intent.sources if one.name == name]
        return one


def poll(kubelet: IntentCollector, containers: tuple[Container, ...]) -> Polled:
    found = kubelet.ask(containers)
    return Polled(found.intent, found.containers)


def at(step: str, tmp_path: Path, without: str = "") -> Polled:
    """The first poll at a moment, with one file of the tree taken away."""
    host = Step(step).tree(tmp_path / "tree")
    for path in host.root.rglob(without) if without else ():
        path.unlink()
    return poll(IntentCollector(host), Step(step).containers())


@pytest.mark.parametrize("step", STEPS)
def test_what_was_promised_is_what_the_kubelet_wrote_to_each_cpuset(step: str, tmp_path: Path) -> None:
    found = at(step, tmp_path)
    assert found.intent.conflicts == ()
    cpusets = Step(step).cpusets()
    joined = found.intent.by_cgroup
    for id_, cpuset in cpusets.items():
        intent = joined.get(id_)
        if intent is None:
            # The sandbox of a pod: no status names it, nothing is written to its cpuset.
            assert (cpuset.mems, cpuset.cpus) == (NodeSet(), CpuSet())
            continue
        assert intent.promise.memory_nodes == cpuset.mems
        if intent.promise.cpus:
            assert intent.promise.cpus == cpuset.cpus
        assert intent.is_stale is False
        assert intent.has_ended is False
        assert intent.hints is not None
        # Null in the log = not pinned.
        assert intent.hints.memory_nodes in (None, cpuset.mems) or intent.hints.memory_nodes == NodeSet()
    assert len(joined) * 2 >= len(cpusets)


@pytest.mark.parametrize("step", STEPS)
def test_podresources_alone_tells_the_same_as_the_checkpoints(step: str, tmp_path: Path) -> None:
    whole = at(step, tmp_path / "a")
    alone = at(step, tmp_path / "b", without="*_manager_state")
    assert alone.source("memory checkpoint").state == "missing"
    compared = 0
    for key, one in alone.intent.by_cgroup.items():
        other = whole.intent.by_cgroup[key].promise
        assert one.promise.cpus == other.cpus
        assert set(one.promise.memory or ()) == set(other.memory or ())
        compared += 1
    assert compared >= 1


def test_every_pod_of_a_node_is_listed_with_its_promise(tmp_path: Path) -> None:
    found = at(f"{SINGLE}/2-rejected", tmp_path)
    huge = found.of("gu-huge")
    assert {one.type: one.size for one in huge.promise.memory or ()} == {
        "memory": 67108864,
        "hugepages-2Mi": 33554432,
    }
    # A fraction of a CPU: memory is pinned, CPUs are not.
    frac = found.of("gu-frac").promise
    assert (frac.memory_nodes, frac.cpus) == (NodeSet.of(0), CpuSet())
    assert found.of("bu").promise.memory == ()
    assert found.intent.shared_cpus == CpuSet.of(0)
    assert found.intent.machine is not None
    assert found.intent.machine[0].memory_map["memory"].system_reserved == 209715200
    assert [one.reason for one in found.intent.rejections] == ["TopologyAffinityError"] * 4


def test_a_pod_refused_again_after_a_restart_counts_once_with_the_newer_reason(tmp_path: Path) -> None:
    rejections = at(f"{SINGLE}/4-kubelet-restarted", tmp_path).intent.rejections
    assert sorted((one.pod.removesuffix("-numanode"), one.reason) for one in rejections) == [
        ("gu-cross", "UnexpectedAdmissionError"),
        ("gu-manycpu", "TopologyAffinityError"),
        ("gu-nomem", "UnexpectedAdmissionError"),
        ("gu-toobig", "TopologyAffinityError"),
    ]


def test_an_init_container_that_handed_its_memory_over_keeps_its_cpu(tmp_path: Path) -> None:
    running = at(f"{SINGLE}/1-running", tmp_path / "a").of("gu-init", "init")
    assert (running.promise.memory, running.promise.cpus, running.has_ended) == ((), CpuSet.of(5), True)
    # After a restart of the kubelet the memory of the ended container is back in its checkpoint.
    restarted = at(f"{SINGLE}/4-kubelet-restarted", tmp_path / "b").of("gu-init", "init")
    assert restarted.promise.memory_nodes == NodeSet.of(2)
    assert (restarted.has_ended, restarted.is_stale) == (True, False)


def test_the_entry_of_a_removed_pod_is_stale(tmp_path: Path) -> None:
    found = at(f"{SINGLE}/3-removed-gu-two", tmp_path)
    stale = [one for one in found.intent.containers if one.is_stale]
    assert {one.name for one in stale} == {"a", "b"}
    assert {one.pod_uid for one in stale} == {"d3e03ed6e8ea78355e1d1b3a6bdbf5f3"}
    assert all(one.promise.memory_nodes == NodeSet.of(1) for one in stale)


def test_containers_have_their_own_part_of_what_their_pod_got_as_a_whole(tmp_path: Path) -> None:
    found = at("standalone-pod-level-resources/1", tmp_path)
    assert found.of("pl-mixed", "pinned").promise.cpus == CpuSet.of(2)
    assert found.of("pl-mixed", "shared").promise.cpus == CpuSet.of(3)
    assert found.intent.checkpoints[0].form == "V2"


def test_names_found_by_the_pods_status_complete_the_containers(tmp_path: Path) -> None:
    found = at(f"{SINGLE}/1-running", tmp_path)
    named = {f"{one.namespace}/{one.pod}/{one.name}" for one in found.containers if one.name is not None}
    assert "default/gu-two-numanode/a" in named
    assert len(named) == 10
    assert all(one.pod is not None for one in found.containers)


def test_a_node_without_device_plugins_lacks_nothing(tmp_path: Path) -> None:
    state = at(f"{SINGLE}/1-running", tmp_path).source("device checkpoint")
    assert state.state == "ok"
    path = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    assert state.reason == f"no file {path}: no device plugin has registered"


@dataclass
class _Asked:
    """A recorded kubelet that counts how often it is asked for what it may give."""

    recorded: RecordedKubelet
    answer: bytes | None
    times: int = 0

    def allocatable(self) -> bytes | None:
        self.times += 1
        return self.answer

    def __getattr__(self, name: str) -> object:
        return getattr(self.recorded, name)


@pytest.mark.parametrize("registered", [True, False])
def test_only_a_kubelet_with_devices_is_asked_where_they_are(registered: bool, tmp_path: Path) -> None:
    host = Step(f"{SINGLE}/1-running").tree(tmp_path / "tree")
    if registered:
        _register(host, "vendor.example/nic")
    kubelet = KubeletPoller.of(host)
    asked = _Asked(RecordedKubelet(host.answers), AllocatableResourcesResponse().SerializeToString())
    kubelet.answers = cast("KubeletAnswers", asked)
    names = {one.name for one in poll(IntentCollector.by(kubelet), ()).intent.sources}
    poll(IntentCollector.by(kubelet), ())
    assert asked.times == registered  # not again while nothing changes
    assert ("allocatable devices" in names) is registered


def test_an_old_kubelet_that_cannot_say_where_devices_are_lacks_nothing(tmp_path: Path) -> None:
    host = Step(f"{SINGLE}/1-running").tree(tmp_path / "tree")
    _register(host, "vendor.example/nic")
    kubelet = KubeletPoller.of(host)
    kubelet.answers = cast("KubeletAnswers", _Asked(RecordedKubelet(host.answers), None))
    state = poll(IntentCollector.by(kubelet), ()).source("allocatable devices")
    assert (state.state, state.reason) == ("ok", "the kubelet does not know GetAllocatableResources")


def _register(host: Host, resource: str) -> None:
    path = host.kubelet / "device-plugins/kubelet_internal_checkpoint"
    path.parent.mkdir()
    path.write_bytes(device_checkpoint.write(DeviceCheckpoint.of((), {resource: ("a",)})))


def test_where_no_checkpoint_can_be_seen_the_devices_one_is_missing_too(tmp_path: Path) -> None:
    found = at(f"{SINGLE}/1-running", tmp_path, "*_manager_state")
    assert found.source("device checkpoint").state == "missing"


@pytest.mark.parametrize(
    ("without", "source", "words"),
    [
        ("memory_manager_state", "memory checkpoint", "no file /var/lib/kubelet/memory_manager_state"),
        ("cpu_manager_state", "cpu checkpoint", "no file /var/lib/kubelet/cpu_manager_state"),
        ("pods.json", "pods", "the captured tree has no numaudit/pods.json"),
        ("podresources-list.pb", "podresources", "the captured tree has no numaudit/podresources-list.pb"),
        ("kubelet.log", "kubelet log", "cannot read numaudit/kubelet.log"),
        ("kubelet.yaml", "kubelet configuration", "no configuration file in a usual place"),
        ("kubelet-metrics.txt", "kubelet metrics", "the captured tree has no numaudit/kubelet-metrics.txt"),
    ],
)
def test_each_source_that_is_missing_is_named_with_its_reason(
    without: str, source: SourceName, words: str, tmp_path: Path
) -> None:
    found = at(f"{SINGLE}/1-running", tmp_path, without)
    state = found.source(source)
    assert state.state == "missing"
    assert words in (state.reason or "")
    missing = {one.name for one in found.intent.sources if one.state == "missing"}
    assert missing == {source}
    # By the checkpoint, PodResources, the log and what pods there are: all that were promised something.
    promised = {one.pod for one in found.intent.containers if one.promise.memory}
    assert promised == {f"gu-{name}-numanode" for name in ("small", "two", "huge", "init", "sidecar", "frac")}


def test_the_checkpoint_alone_still_tells_promises(tmp_path: Path) -> None:
    host = Step("standalone-restricted/1-cross").tree(tmp_path / "tree")
    shutil.rmtree(host.answers)
    shutil.rmtree(host.root / "etc")
    (host.kubelet / "cpu_manager_state").unlink()
    found = poll(IntentCollector(host), ())
    (one,) = found.intent.containers
    assert one.promise.memory_nodes == NodeSet.of(0, 1)
    assert one.promise.cpus is None
    assert one.is_stale is None
    assert found.intent.pods is None
    config = found.intent.config
    assert (config.memory_manager_policy, config.origins) == ("Static", {"memory_manager_policy": "checkpoint"})
    assert config.topology_manager_policy is None


def test_the_log_tells_the_topology_policy_where_no_configuration_does(tmp_path: Path) -> None:
    config = at(f"{SINGLE}/1-running", tmp_path, without="kubelet.yaml").intent.config
    assert (config.topology_manager_policy, config.topology_manager_scope) == ("single-numa-node", "container")
    assert config.origins["topology_manager_policy"] == "log"
    assert config.origins["cpu_manager_policy"] == "checkpoint"


def test_without_a_kubelet_there_is_no_intent_and_the_reason_is_given(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    with pytest.raises(Unavailable, match="no kubelet"):
        IntentCollector(Host.under(tmp_path)).ask(())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every source is asked at every tick."""
    monkeypatch.setattr(polled, "RETRY_AFTER", 0.0)
    monkeypatch.setattr(poller, "SELDOM", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_kubelet_that_goes_away_leaves_its_last_answers_and_comes_back(tmp_path: Path) -> None:
    step = Step(f"{SINGLE}/1-running")
    host = step.tree(tmp_path / "tree")
    kubelet = IntentCollector(host)
    before = poll(kubelet, step.containers())
    pods = (host.answers / "pods.json").read_bytes()
    (host.answers / "pods.json").unlink()
    (host.answers / "podresources-list.pb").write_bytes(b"\xff\xff")
    gone = poll(kubelet, step.containers())
    assert gone.source("pods").state == "old"
    assert gone.source("podresources").state == "old"
    assert gone.source("pods").read_at == before.source("pods").read_at
    assert gone.of("gu-small").promise.memory == before.of("gu-small").promise.memory
    # Without a current answer no source lists devices.
    assert (before.of("gu-small").promise.devices, gone.of("gu-small").promise.devices) == ((), None)
    (host.answers / "pods.json").write_bytes(pods)
    assert poll(kubelet, step.containers()).source("pods").state == "ok"


@pytest.mark.usefixtures("impatient")
def test_the_last_values_of_a_silent_source_end_with_their_greatest_age(tmp_path: Path) -> None:
    step = Step(f"{SINGLE}/1-running")
    host = step.tree(tmp_path / "tree")
    kubelet = IntentCollector(host)
    poll(kubelet, step.containers())
    kubelet.poller.max_age = 3600.0
    (host.answers / "pods.json").unlink()
    (host.kubelet / "memory_manager_state").write_bytes(b"{")
    silent = poll(kubelet, step.containers())
    assert [silent.source(name).state for name in ("pods", "memory checkpoint", "cpu checkpoint")] == [
        "old",
        "old",
        "ok",
    ]
    assert (silent.intent.pods is None, silent.intent.machine is None) == (False, False)
    kubelet.poller.max_age = 0.0
    ended = poll(kubelet, step.containers())
    assert [ended.source(name).state for name in ("pods", "memory checkpoint")] == ["missing", "missing"]
    assert "its last values are too old" in (ended.source("pods").reason or "")
    assert (ended.intent.pods, ended.intent.machine, ended.intent.headroom) == (None, None, None)
    # What a restart would do to the pods is not said by a list that is old.
    for found in (silent, ended):
        assert [(one.starts, one.pods) for one in found.intent.forecasts] == [("no", ())] * 2
        assert all("/pods" in (one.pods_problem or "") for one in found.intent.forecasts)


@pytest.mark.usefixtures("impatient")
def test_an_old_source_is_no_success_in_the_metrics(tmp_path: Path) -> None:
    step = Step(f"{SINGLE}/1-running")
    host = step.tree(tmp_path / "tree")
    kubelet = IntentCollector(host)
    poll(kubelet, step.containers())
    (host.answers / "pods.json").unlink()
    intent = poll(kubelet, step.containers()).intent
    aged = tuple(replace(one, age=42.0) if one.name == "pods" else one for one in intent.sources)
    machine = read_machine("standalone-single-numa-node")
    found = exposition(build(Snapshot(0.0, machine, "v2", intent=replace(intent, sources=aged))))
    rows = {one.metric.name: {(key, *labels): value for key, labels, value in one.points} for one in found.families}
    success, age = rows["collector_success"], rows["collector_age_seconds"]
    assert (success[None, "pods"], success[None, "podresources"]) == (0, 1)
    assert age == {(None, "pods"): 42.0}


@pytest.mark.usefixtures("impatient")
def test_an_entry_that_came_after_the_last_pods_is_not_called_stale(tmp_path: Path) -> None:
    step = Step(f"{SINGLE}/3-removed-gu-two")
    host = step.tree(tmp_path / "tree")
    kubelet = IntentCollector(host)
    # The pod is not listed any more; its name is still in the log.
    first = poll(kubelet, ())
    assert [first.of("gu-two", name).is_stale for name in ("a", "b")] == [True, True]
    (host.answers / "pods.json").unlink()
    second = poll(kubelet, ())
    assert [second.of("gu-two", name).is_stale for name in ("a", "b")] == [None, None]


def test_a_silent_source_is_not_asked_at_every_tick(tmp_path: Path) -> None:
    step = Step(f"{SINGLE}/1-running")
    host = step.tree(tmp_path / "tree")
    asked = 0

    class Silent(RecordedKubelet, frozen=True):
        def pods(self) -> bytes:
            nonlocal asked
            asked += 1
            raise Unavailable("no answer within 3 s")

    kubelet = IntentCollector.by(
        KubeletPoller(host, Silent(host.answers), FileLog(host.answers / "kubelet.log", "kubelet.log"))
    )
    for _ in range(5):
        assert poll(kubelet, step.containers()).source("pods").reason == "no answer within 3 s"
    assert asked == 1


def test_a_refused_pod_that_was_deleted_counts_for_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Step(f"{SINGLE}/4-kubelet-restarted").tree(tmp_path / "tree")
    (host.answers / "kubelet.log").unlink()
    pods = host.answers / "pods.json"
    (one,) = (pod for pod in json.loads(pods.read_text())["items"] if pod["metadata"]["name"].startswith("gu-toobig"))

    def refused(seconds: float, *listed: object) -> list[str]:
        pods.write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": listed}))
        monkeypatch.setattr(poller, "time", lambda: at + seconds)
        return [found.pod for found in poll(kubelet, ()).intent.rejections if not found.by_counter]

    at = datetime.fromisoformat(one["status"]["startTime"]).timestamp()
    name = one["metadata"]["name"]
    kubelet = IntentCollector.by(KubeletPoller.of(host))
    assert refused(1, one) == [name]
    for after, found in ((2, [name]), (poller.REFUSED_FOR, [name]), (poller.REFUSED_FOR + 1, [])):
        kubelet.poller._pods.again()
        assert refused(after) == found


def test_files_that_may_not_be_read_for_configz_leave_the_settings_that_were_read(tmp_path: Path) -> None:
    host = Step(f"{SINGLE}/1-running").tree(tmp_path / "tree")

    class Locked(RecordedKubelet, frozen=True):
        def configz(self) -> bytes:
            raise PermissionError(13, "Permission denied", "/var/lib/kubelet/pki/kubelet.crt")

    log = FileLog(host.answers / "kubelet.log", "kubelet.log")
    found = poll(IntentCollector.by(KubeletPoller(host, Locked(host.answers), log)), ())
    assert found.source("kubelet configuration").state == "ok"
    assert found.intent.config.topology_manager_policy == "single-numa-node"


def test_the_kubelet_is_asked_when_a_container_or_a_checkpoint_changed_and_else_seldom(tmp_path: Path) -> None:
    step = Step("standalone-restricted/2-more")
    host = step.tree(tmp_path / "tree")
    asked = 0

    class Counting(RecordedKubelet, frozen=True):
        def pods(self) -> bytes:
            nonlocal asked
            asked += 1
            return super().pods()

    kubelet = IntentCollector.by(
        KubeletPoller(host, Counting(host.answers), FileLog(host.answers / "kubelet.log", "kubelet.log"))
    )
    named = tuple(one for one in poll(kubelet, step.containers()).containers if one.name is not None)
    assert len(named) == 3
    first = poll(kubelet, named)
    assert asked == 2
    for _ in range(3):
        assert poll(kubelet, named).intent.containers == first.intent.containers
    assert asked == 2
    fewer = poll(kubelet, named[1:])
    assert asked == 3
    assert len(fewer.intent.by_cgroup) == 2
    shutil.copy(Step("standalone-restricted/1-cross").folder / "memory_manager_state", host.kubelet)
    changed = poll(kubelet, named[1:])
    assert asked == 4
    # The older checkpoint has no entry for it, but PodResources still lists one.
    assert changed.of("gu-small").promise.memory == first.of("gu-small").promise.memory
    assert {one.split(":")[0] for one in changed.intent.conflicts} == {
        "default/gu-small-numanode/app",
        "default/gu-cross2-numanode/app",
    }
    # A container without a name yet: its pod's status may name it by now.
    poll(kubelet, step.containers())
    poll(kubelet, step.containers())
    assert asked == 6


def test_a_renamed_container_is_joined_again_though_no_source_changed(tmp_path: Path) -> None:
    step = Step("standalone-restricted/2-more")
    kubelet = IntentCollector(step.tree(tmp_path / "tree"))
    named = tuple(one for one in poll(kubelet, step.containers()).containers if one.name is not None)
    assert len(poll(kubelet, named).intent.by_cgroup) == 3
    wrong = tuple(replace(one, name="other") for one in named)
    assert poll(kubelet, wrong).intent.by_cgroup == {}


@pytest.mark.usefixtures("impatient")
def test_a_torn_checkpoint_leaves_the_promises_of_the_last_good_one(tmp_path: Path) -> None:
    step = Step(f"{SINGLE}/1-running")
    host = step.tree(tmp_path / "tree")
    kubelet = IntentCollector(host)
    poll(kubelet, step.containers())
    state = host.kubelet / "memory_manager_state"
    state.write_bytes(state.read_bytes()[:500])
    torn = poll(kubelet, step.containers())
    assert torn.source("memory checkpoint").state == "old"
    assert torn.of("gu-small").promise.memory_nodes == NodeSet.of(0)
    # Nothing in the old file: that is no longer known to be nothing.
    (burstable,) = [one for one in torn.intent.containers if one.pod == "bu-numanode"]
    assert burstable.promise.memory == ()  # PodResources knows it
    health = torn.intent.checkpoints[0]
    assert (health.problem, health.form) == ("not understood", None)
    assert health.last_good_at is not None


def test_a_log_of_another_kubelet_is_named_as_not_understood(tmp_path: Path) -> None:
    host = Step(f"{SINGLE}/1-running").tree(tmp_path / "tree")
    line = 'I1120 22:38:22.3287{:02d} 341 scope_container.go:93] "TopologyHints" hints=<some> pod="a/b"\n'
    (host.answers / "kubelet.log").write_text("".join(line.format(number) for number in range(7)))
    found = poll(IntentCollector(host), ())
    source = found.source("kubelet log")
    assert (source.state, source.reason) == ("partial", "7 lines of a known kind were not understood")
    assert found.intent.hints == ()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ('{"log":"I1120 22:38:22.328746 341 x.go:1] ..."}\n2026-11-20 kubelet started\n', "none of its 2 lines has a"),
        ('{"ts":1795214302328.7,"msg":"Starting","v":0}\n{torn\n', None),
        ('systemd[1]: Started kubelet\nI1120 22:38:22.328746 341 x.go:1] "Starting"\n', None),
        ("", None),
    ],
)
def test_a_log_in_a_format_that_is_not_read_is_named(lines: str, reason: str | None, tmp_path: Path) -> None:
    host = Step(f"{SINGLE}/1-running").tree(tmp_path / "tree")
    (host.answers / "kubelet.log").write_text(lines)
    found = poll(IntentCollector(host), ()).source("kubelet log").reason
    assert (found or "").startswith(reason or "")
    assert (found is None) is (reason is None)


def test_a_log_in_json_tells_the_same_hints_as_its_text(tmp_path: Path) -> None:
    host = Step(f"{SINGLE}/1-running").tree(tmp_path / "tree")
    text = poll(IntentCollector(host), ()).intent.hints
    log = host.answers / "kubelet.log"
    lines = [as_json(line, datetime(2026, 11, 21, tzinfo=UTC)) for line in log.read_text().splitlines()]
    log.write_text("".join(f"{line}\n" for line in lines if line is not None))
    assert [replace(one, at=None) for one in poll(IntentCollector(host), ()).intent.hints] == [
        replace(one, at=None) for one in text
    ]
    assert text


def test_the_configuration_in_force_by_configz_comes_before_files(tmp_path: Path) -> None:
    host = Step(f"{SINGLE}/1-running").tree(tmp_path / "tree")
    in_force = {"kubeletconfig": {"memoryManagerPolicy": "Static", "topologyManagerPolicy": "best-effort"}}
    (host.answers / "configz.json").write_text(json.dumps(in_force))
    config = poll(IntentCollector(host), ()).intent.config
    assert config.topology_manager_policy == "best-effort"
    assert config.origins["topology_manager_policy"] == "configz"


def test_a_kubelet_with_another_root_is_found_by_its_flags(tmp_path: Path) -> None:
    host = Step("standalone-restricted/1-cross").tree(tmp_path / "tree")
    (host.root / "data").mkdir()
    host.kubelet.rename(host.root / "data/kubelet")
    process = host.proc / "55"
    process.mkdir()
    (process / "comm").write_text("kubelet\n")
    (process / "cmdline").write_bytes(b"kubelet\0--config=/etc/kubernetes/kubelet.yaml\0--root-dir=/data/kubelet\0")
    found = poll(IntentCollector(host), ())
    assert found.source("memory checkpoint").state == "ok"
    assert found.source("kubelet configuration").reason is None
    (one,) = [one for one in found.intent.containers if one.promise.memory]
    assert one.promise.memory_nodes == NodeSet.of(0, 1)


def test_a_tick_on_a_captured_node_has_the_intent_in_its_snapshot(fixtures: Path) -> None:
    snapshot = Observer.of(Host.under(fixtures / "kubernetes-four-nodes")).observe()
    assert snapshot.intent is not None
    small = next(one for one in snapshot.containers if (one.pod, one.name) == ("gu-small-numanode", "app"))
    allowed = snapshot.allowed[small.id].nodes
    assert snapshot.intent.by_cgroup[small.id].promise.memory_nodes == allowed == NodeSet.of(0)
    assert Observer.of(Host.under(fixtures / "huge-pages")).observe().intent is None


def test_a_live_kubelet_is_followed_by_journal_or_by_the_file_that_was_given(tmp_path: Path) -> None:
    assert isinstance(IntentCollector(Host()).poller.log, JournalLog)
    path = tmp_path / "kubelet.log"
    path.write_text("one\n")
    kubelet = IntentCollector(Host(connection=KubeletConnection("http://127.0.0.1:1", log_file=path)))
    assert [line.text for line in kubelet.poller.log.read()] == ["one"]
    kubelet.close()


def test_the_memory_map_is_the_checkpoints(tmp_path: Path) -> None:
    found = at("standalone-restricted/1-cross", tmp_path)
    assert found.intent.machine is not None
    assert [node.cells for node in found.intent.machine.values()] == [(0, 1), (0, 1), (2,), (3,)]
    assert Block((0, 1), "memory", 1468006400).size == sum(
        block.size for block in found.of("gu-cross3").promise.memory or ()
    )
