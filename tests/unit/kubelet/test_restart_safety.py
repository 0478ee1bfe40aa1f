"""Would the kubelet start with its checkpoints? Asked of recorded ones, with one thing changed at a time."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from kubelets.node_of_step import node_of
from kubelets.recorded import read_machine
from kubelets.steps import RUNS, STEPS, Step
from made_up.reports import tick
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.start import outlook as restart
from numaudit.checkpoints.start.outlook import examine
from numaudit.cli.main import call
from numaudit.doctor.checks import examine as examine_host
from numaudit.doctor.kubelet_answers import checkpoint_checks
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.evaluation.findings import find
from numaudit.exporters.catalogue import TICK_METRICS
from numaudit.intent.kubelet import CheckpointHealth, StartOutlook
from numaudit.intent.node import Intent
from numaudit.kernel.host import Host
from numaudit.kubelet.sources import polled
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.report.build import build
from numaudit.snapshot import Snapshot

SINGLE = "standalone-single-numa-node"
ERRORS = "standalone-restart-errors"
PAGE = 2 << 20


def health(host: Host, file: str = "memory_manager_state") -> CheckpointHealth:
    return health_in(IntentCollector(host).ask(()).intent, file)


def health_in(intent: Intent, file: str = "memory_manager_state") -> CheckpointHealth:
    (one,) = [one for one in intent.checkpoints if one.file == file]
    return one


def names(outlook: StartOutlook) -> set[str]:
    return {one.name for one in outlook.findings}


def fewer_huge_pages(host: Host) -> None:
    (host.nodes / "node0/hugepages/hugepages-2048kB/nr_hugepages").write_text("12\n")


def configure(host: Host, old: str, new: str) -> None:
    path = host.root / "etc/kubernetes/kubelet.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("step", STEPS)
def test_recorded_kubelets_would_start_again_on_their_machine(step: str, tmp_path: Path) -> None:
    """As they did. 4-kubelet-restarted did so with the same files."""
    host = node_of(step, tmp_path)
    memory, cpu, devices = (
        health(host, file).outlook
        for file in ("memory_manager_state", "cpu_manager_state", "kubelet_internal_checkpoint")
    )
    again = {"pod-level-charged-again"} if step.startswith("standalone-pod-level-resources") else set[str]()
    starts = "once" if again else "yes"
    assert (memory.valid, memory.starts_now, memory.starts_after_reboot) == (True, starts, "at risk")
    assert names(memory) <= {"reboot-may-change-totals", "cross-node-release-drift"} | again
    assert (cpu.valid, cpu.starts_now, cpu.starts_after_reboot, names(cpu)) == (True, starts, starts, again)
    assert (devices.valid, devices.starts_now) == (None, "yes")


def test_fewer_huge_pages_stop_the_kubelet_as_they_did_when_recorded(tmp_path: Path) -> None:
    host = node_of(f"{ERRORS}/1", tmp_path)
    fewer_huge_pages(host)
    found = health(host).outlook
    assert (found.valid, found.starts_now) == (False, "no")
    assert "huge-pages-changed" in names(found)
    assert "expected machine state is different" in (RUNS / ERRORS / "kubelet.k2-machine-changed.log").read_text()


def test_an_edited_digit_stops_the_kubelet_as_it_did_when_recorded(tmp_path: Path) -> None:
    host = node_of(f"{ERRORS}/1", tmp_path)
    file = host.kubelet / "memory_manager_state"
    file.write_text(file.read_text().replace('"size":', '"size":1', 1))
    found = health(host).outlook
    assert (found.valid, found.starts_now, names(found)) == (False, "no", {"checksum-mismatch"})
    assert "checkpoint is corrupted" in (RUNS / ERRORS / "kubelet.k3-checksum.log").read_text()


@pytest.mark.parametrize(
    ("old", "new", "file", "cause"),
    [
        ("memoryManagerPolicy: Static", "memoryManagerPolicy: None", "memory_manager_state", "policy-changed"),
        ("cpuManagerPolicy: static", "cpuManagerPolicy: none", "cpu_manager_state", "policy-changed"),
        ("numaNode: 1", "numaNode: 2", "memory_manager_state", "reservation-changed"),
    ],
)
def test_a_changed_configuration_is_reported_before_the_kubelet_restarts(
    tmp_path: Path, old: str, new: str, file: str, cause: str
) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    configure(host, old, new)
    found = health(host, file).outlook
    assert (found.starts_now, found.starts_after_reboot) == ("no", "no")
    assert cause in names(found)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{memory: 200Mi}", "{memory: 201Mi}", 'of type "memory" is not equal to the value'),
        ("numaNode: 1", "numaNode: 9", "references a NUMA node 9 that does not exist on this machine"),
        (
            "{memory: 200Mi}",
            "{memory: 200Mi, hugepages-1Gi: 1Gi}",
            'of type "hugepages-1Gi" is not equal to the value "0"',
        ),
    ],
)
def test_a_configuration_whose_reservations_a_kubelet_refuses_is_refused_in_its_words(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    configure(host, old, new)
    found = health(host).outlook
    assert (found.starts_now, found.valid) == ("no", False)
    assert words in str(found.refusal)
    assert "configuration-refused" in names(found)


@pytest.mark.parametrize(("option", "starts"), [("off", "no"), ("auto", "unknown"), ("128Mi", "unknown")])
def test_a_drift_that_an_option_may_accept_is_not_known(tmp_path: Path, option: str, starts: str) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    options = f"memoryManagerPolicyOptions: {{memory-drift-tolerance: '{option}'}}"
    gate = "featureGates: {MemoryManagerDriftTolerance: true}"
    configure(host, "memoryManagerPolicy: Static", f"memoryManagerPolicy: Static\n{options}\n{gate}")
    meminfo = host.sys / "devices/system/node/node3/meminfo"
    text = meminfo.read_text()
    total = int(text.split("MemTotal:")[1].split()[0])
    meminfo.write_text(text.replace(f"{total} kB", f"{total + 4} kB", 1))
    found = health(host).outlook
    assert (found.starts_now, "memory-total-drift" in names(found)) == (starts, True)


def test_more_than_a_node_has_is_reserved_without_a_refusal(tmp_path: Path) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    configure(host, "{memory: 200Mi}", "{memory: 9000Gi}")
    configure(host, "systemReserved: {cpu: 250m, memory: 100Mi}", "systemReserved: {cpu: 250m, memory: 9215900Mi}")
    assert "reservation-not-known" in names(health(host).outlook)


def test_without_a_machine_to_compare_with_nothing_is_promised(tmp_path: Path) -> None:
    host = Step(f"{SINGLE}/1-running").tree(tmp_path / "tree")
    found = health(host).outlook
    assert (found.valid, found.starts_now, found.starts_after_reboot) == (True, "unknown", "unknown")


def test_without_a_configuration_the_files_policies_and_reservations_stand(tmp_path: Path) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    shutil.rmtree(host.root / "etc")
    assert health(host).outlook.starts_now == "yes"


def test_an_absent_file_stops_nothing_and_a_torn_one_does(tmp_path: Path) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    cpu, memory = host.kubelet / "cpu_manager_state", host.kubelet / "memory_manager_state"
    cpu.unlink()
    memory.write_bytes(memory.read_bytes()[:100])
    assert health(host, "cpu_manager_state").outlook == StartOutlook(None, "yes", "yes")
    found = health(host).outlook
    assert (found.valid, found.starts_now, names(found)) == (False, "no", {"unreadable"})


def test_a_damaged_device_checkpoint_stops_nothing_but_is_not_valid(tmp_path: Path) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    folder = host.kubelet / "device-plugins"
    folder.mkdir()
    (folder / "kubelet_internal_checkpoint").write_text("{")
    found = health(host, "kubelet_internal_checkpoint").outlook
    assert (found.valid, found.starts_now, names(found)) == (False, "yes", {"devices-lost"})


def test_a_file_is_examined_again_only_when_something_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    examined: list[str] = []

    def counted(checkpoint: checkpoints.Checkpoint, *rest: object) -> object:
        examined.append(checkpoints.kind(checkpoint))
        return examine(checkpoint, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(restart, "examine", counted)
    monkeypatch.setattr(polled, "MACHINE_EVERY", 0.0)
    _age(host, 200)  # a file that was just written is looked at more than once
    kubelet = IntentCollector(host)
    for _ in range(3):
        kubelet.ask(())
    assert sorted(examined) == ["cpu_manager_state", "memory_manager_state"]
    fewer_huge_pages(host)
    after = kubelet.ask(()).intent
    assert len(examined) == 4
    assert health_in(after).outlook.starts_now == "no"
    shutil.copy(RUNS / "standalone-restricted/2-more/cpu_manager_state", host.kubelet)
    _age(host, 100, "cpu_manager_state")
    kubelet.ask(())
    assert examined[4:] == ["cpu_manager_state"]


def _age(host: Host, seconds: int, *names: str) -> None:
    """As if its checkpoints (or these) had been written so long ago."""
    for path in host.kubelet.glob("*_manager_state"):
        if not names or path.name in names:
            then = time.time() - seconds
            os.utime(path, (then, then))


def test_each_cause_is_one_finding_with_its_own_remedy(tmp_path: Path) -> None:
    host = node_of(f"{ERRORS}/1", tmp_path)
    fewer_huge_pages(host)
    intent = IntentCollector(host).ask(()).intent
    taken = Snapshot(0.0, read_machine(ERRORS), "v2", intent=replace(intent, containers=()))
    found = [one for one in find(taken) if one.name == "restart-unsafe"]
    assert len(found) == 1
    assert found[0].message.startswith("memory_manager_state: huge-pages-changed: node 0: hugepages-2Mi total is")
    assert "nr_hugepages" in found[0].remedy
    assert found[0].severity == "critical"


def test_state_verify_says_the_same_of_a_changed_reservation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    assert call(["state", "verify", "--root", str(host.root)]) == 0
    configure(host, "numaNode: 1", "numaNode: 2")
    capsys.readouterr()
    assert call(["state", "verify", "--root", str(host.root), "-o", "json"]) == 1
    memory = json.loads(capsys.readouterr().out)["items"][0]
    assert (memory["startsNow"], memory["valid"]) == ("no", False)
    assert "reservation-changed" in {one["name"] for one in memory["findings"]}


def state_metrics(host: Host) -> dict[str, dict[tuple[str, ...], float]]:
    """The catalogue's rows about checkpoints: name -> labels -> value."""
    intent = IntentCollector(host).ask(()).intent
    report = build(Snapshot(0.0, read_machine(SINGLE), "v2", intent=intent))
    rows = [one for one in TICK_METRICS if one.name.startswith("state_")]
    return {one.name: dict(one.values(tick(report))) for one in rows}


def test_a_checkpoint_that_stops_the_kubelet_is_named_in_the_metrics(tmp_path: Path) -> None:
    """A reboot puts every node at risk, so that alone is no alert."""
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    memory = "memory_manager_state"
    found = state_metrics(host)
    assert (found["state_valid"][memory,], found["state_restart_safe"][memory,]) == (1, 1)
    assert found["state_problem_info"] == {("kubelet_internal_checkpoint", "absent"): 1}
    fewer_huge_pages(host)
    found = state_metrics(host)
    assert (found["state_valid"][memory,], found["state_restart_safe"][memory,]) == (0, 0)
    assert found["state_problem_info"][memory, "huge-pages-changed"] == 1


def test_a_refused_configuration_is_blamed_on_no_checkpoint(tmp_path: Path) -> None:
    """One series, not one of each file: the files are right."""
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    memory, cpu = "memory_manager_state", "cpu_manager_state"
    configure(host, "cpuManagerPolicy: static", "cpuManagerPolicy: bogus")
    found = state_metrics(host)
    assert found["state_restart_safe"] == {("configuration",): 0}
    assert (found["state_valid"][memory,], found["state_valid"][cpu,]) == (1, 1)
    absent = {("kubelet_internal_checkpoint", "absent"): 1}
    assert found["state_problem_info"] == {("configuration", "configuration-refused"): 1} | absent
    fewer_huge_pages(host)
    found = state_metrics(host)
    assert found["state_restart_safe"] == {("configuration",): 0, (memory,): 0}
    assert found["state_problem_info"][memory, "huge-pages-changed"] == 1


def test_a_kubelet_that_starts_once_and_then_no_more_has_its_cause_in_the_metrics(tmp_path: Path) -> None:
    found = state_metrics(node_of("standalone-pod-level-resources/1", tmp_path))
    assert found["state_restart_safe"]["memory_manager_state",] == 0
    assert found["state_problem_info"]["memory_manager_state", "pod-level-charged-again"] == 1


def test_doctor_has_a_check_for_each_file_that_is_there(tmp_path: Path) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    memory, cpu = checkpoint_checks(host, KubeletPoller.of(host).poll_state())
    assert [(one.name, one.state) for one in (memory, cpu)] == [
        ("memory_manager_state", "ok"),
        ("cpu_manager_state", "ok"),
    ]
    assert memory.detail == "would the kubelet start with it? now: yes; after a reboot: at risk"
    fewer_huge_pages(host)
    memory, _ = checkpoint_checks(host, KubeletPoller.of(host).poll_state())
    assert memory.state == "missing"
    assert "now: no" in memory.detail
    assert "huge-pages-changed" in memory.detail
    assert "nr_hugepages" in (memory.hint or "")


def test_doctor_calls_nothing_right_that_could_not_be_compared(tmp_path: Path) -> None:
    host = node_of(f"{SINGLE}/1-running", tmp_path)
    shutil.rmtree(host.nodes)
    for one in checkpoint_checks(host, KubeletPoller.of(host).poll_state()):
        assert (one.state, "now: unknown" in one.detail) == ("reduced", True)
        assert "readable" in (one.hint or "")


def test_doctor_shows_the_files_of_a_captured_node(fixtures: Path) -> None:
    shown = {one.name: one for one in examine_host(Host.under(fixtures / "kubernetes-four-nodes"))}
    assert "would the kubelet start with it?" in shown["memory_manager_state"].detail
    assert json.dumps(shown["cpu_manager_state"].state) == '"ok"'
