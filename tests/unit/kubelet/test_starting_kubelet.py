"""One kubelet starts here: `state verify`, the report, `doctor` and the agent give the same answer about it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hosts.tree_copies import lent
from kubelets.node_of_step import node_of
from numaudit.cli.main import call
from numaudit.doctor.kubelet_answers import checkpoint_checks
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import examine_files
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.kubelet.sources.poller import KubeletPoller
from numaudit.snapshot import Check

SINGLE = "standalone-single-numa-node/1-running"
POD_LEVEL = "standalone-pod-level-resources/1"
MEMORY = "memory_manager_state"

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def node(fixtures: Path) -> Iterator[Path]:
    """A whole captured node."""
    with lent(fixtures / "kubernetes-four-nodes") as copy:
        yield copy


def configure(root: Path, old: str, new: str) -> None:
    path = root / "etc/kubernetes/kubelet.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def checks_of(host: Host) -> list[Check]:
    """Of the checkpoints, by `doctor`."""
    return list(checkpoint_checks(host, KubeletPoller.of(host).poll_state()))


def answers(host: Host, capsys: Capture, file: str = MEMORY) -> tuple[str, str, str]:
    """Does the kubelet start now? By `state verify`, by the report and by `doctor`."""
    (reported,) = [one for one in IntentCollector(host).ask(()).intent.checkpoints if one.file == file]
    (checked,) = [one for one in checks_of(host) if one.name == file]
    found = re.search(r"now: ([a-z ]+);", checked.detail)
    assert found is not None
    return verified(host, capsys, file)["startsNow"], reported.outlook.starts_now, found[1]


def verified(host: Host, capsys: Capture, file: str = MEMORY, *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    call(["state", "verify", "--root", str(host.root), "-o", "json", *arguments])
    (one,) = [one for one in json.loads(capsys.readouterr().out)["items"] if one["checkpoint"] == file]
    assert isinstance(one, dict)
    return one


def version_in_log(host: Host, version: str) -> None:
    with (host.answers / "kubelet.log").open("a") as log:
        log.write(f'I1120 23:59:59.000000 341 server.go:530] "Kubelet version" kubeletVersion="{version}"\n')


def report(root: Path, capsys: Capture) -> dict[str, Any]:
    capsys.readouterr()
    assert call(["report", "--root", str(root), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def names(found: list[dict[str, Any]]) -> set[str]:
    return {one["name"] for one in found}


@pytest.mark.parametrize("new", ["", "memoryManagerPolicy: None\n"])
def test_a_promise_that_runs_is_stronger_than_a_file_of_another_policy(node: Path, new: str, capsys: Capture) -> None:
    configure(node, "memoryManagerPolicy: Static\n", new)
    for mems in (node / "sys/fs/cgroup").glob("**/pod*/*/cpuset.mems.effective"):
        mems.write_text("0-3\n")
    found = report(node, capsys)
    verdicts = {one["verdict"]["name"] for one in found["containers"] if one["intended"] and one["intended"]["bytes"]}
    assert verdicts == {"drifted"}
    assert found["kubelet"]["memoryManagerPolicy"] == "Static"
    (conflict,) = [one["message"] for one in found["findings"] if one["name"] == "sources-disagree"]
    assert conflict.startswith("the Memory Manager's policy is Static by its checkpoint and PodResources, None by ")
    assert (
        call(["report", "--root", str(node), "--fail-on", "drifted"] if False else ["report", "--root", str(node)]) == 0
    )


def test_a_file_without_the_policy_lets_no_misaligned_container_pass(node: Path, capsys: Capture) -> None:
    moved = 0
    for stat in (node / "sys/fs/cgroup").glob("**/pod*/*/memory.numa_stat"):
        text = stat.read_text()
        stat.write_text(re.sub(r"^anon N0=0 N1=(\d{8,}) ", r"anon N0=\1 N1=0 ", text, flags=re.MULTILINE))
        moved += stat.read_text() != text
    assert moved
    assert call(["report", "--root", str(node), "--fail-below", "0.9"]) == 1
    configure(node, "memoryManagerPolicy: Static\n", "")
    assert call(["report", "--root", str(node), "--fail-below", "0.9"]) == 1
    assert "of its bytes are on nodes it was promised" in capsys.readouterr().err


def test_a_policy_that_only_the_running_kubelet_has_stops_the_next_start(tmp_path: Path, capsys: Capture) -> None:
    host = node_of(SINGLE, tmp_path)
    configure(host.root, "memoryManagerPolicy: Static", "memoryManagerPolicy: None")
    assert answers(host, capsys) == ("no", "no", "no")
    assert names(verified(host, capsys)["findings"]) >= {"policy-changed"}


@pytest.mark.parametrize("gates", ["  PodLevelResourceManagers: false\n", "  AllAlpha: false\n"])
def test_a_gate_that_is_off_in_the_configuration_is_off_for_every_verb(
    gates: str, tmp_path: Path, capsys: Capture
) -> None:
    host = node_of(POD_LEVEL, tmp_path)
    assert answers(host, capsys) == ("once", "once", "once")
    configure(host.root, "  PodLevelResourceManagers: true\n", gates)
    assert answers(host, capsys) == ("no", "no", "no")
    found = verified(host, capsys)
    assert "format-not-accepted" in names(found["findings"])
    assert found["kubelet"]["podLevelResourceManagers"] is False
    on = verified(host, capsys, MEMORY, "--feature-gates", "PodLevelResourceManagers=true")
    assert (on["startsNow"], on["kubelet"]["sources"]["podLevelResourceManagers"]) == ("once", "option")


def test_the_version_that_the_host_tells_counts_for_every_verb(tmp_path: Path, capsys: Capture) -> None:
    host = node_of(POD_LEVEL, tmp_path)
    version_in_log(host, "v1.35.0")
    assert answers(host, capsys) == ("no", "no", "no")
    found = verified(host, capsys)
    assert (found["kubelet"]["version"], found["refusal"]) == ("1.35", found["findings"][0]["message"])
    assert "unrecognized feature gate: PodLevelResourceManagers" in found["refusal"]
    newer = verified(host, capsys, MEMORY, "--kubernetes-version", "1.36")
    assert (newer["startsNow"], newer["kubelet"]["sources"]["version"]) == ("once", "option")


def test_what_the_kubelet_says_is_in_force_comes_before_its_files(tmp_path: Path, capsys: Capture) -> None:
    host = node_of(SINGLE, tmp_path)
    version_in_log(host, "v1.36.2")
    (host.answers / "configz.json").write_text('{"kubeletconfig": {"memoryManagerPolicy": "None"}}')
    assert answers(host, capsys) == ("no", "no", "no")
    assert verified(host, capsys)["kubelet"] == {
        "version": "1.36",
        "policy": "None",
        "podLevelResourceManagers": False,
        "sources": {"version": "log", "policy": "configz", "podLevelResourceManagers": "default"},
    }


def test_the_kubelet_that_is_asked_about_is_named_in_the_table(tmp_path: Path, capsys: Capture) -> None:
    host = node_of(SINGLE, tmp_path)
    version_in_log(host, "v1.36.2")
    assert call(["state", "verify", "--root", str(host.root)]) == 0
    line = "  kubelet               1.36 (log), policy Static (file), PodLevelResourceManagers off (default)"
    assert line in capsys.readouterr().out.splitlines()


def test_a_file_that_stops_the_kubelet_that_is_asked_about_ends_with_1(fixtures: Path, capsys: Capture) -> None:
    file = fixtures / "memory-manager-state/cross-node-release/memory_manager_state"
    assert call(["state", "verify", str(file)]) == 0
    capsys.readouterr()
    assert call(["state", "verify", str(file), "-o", "json", "--kubernetes-version", "1.28"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], found["startsNow"]) == (False, "no")
    (drifted,) = found["findings"]
    assert (drifted["name"], drifted["severity"]) == ("cross-node-release-drift", "error")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("memoryManagerPolicy: Static", "memoryManagerPolicy: bogus", 'unknown policy: "bogus"'),
        ("topologyManagerScope: container", "topologyManagerScope: rack", "rack"),
        ("cpuManagerPolicy: static", "cpuManagerPolicy: bogus", "bogus"),
        ("- numaNode: 1\n", "- numaNode: 0\n", "duplicate"),
    ],
)
def test_a_configuration_that_the_kubelet_refuses_is_a_start_refusal(
    old: str, new: str, words: str, tmp_path: Path, capsys: Capture
) -> None:
    host = node_of(SINGLE, tmp_path)
    configure(host.root, old, new)
    assert answers(host, capsys) == ("no", "no", "no")
    assert answers(host, capsys, "cpu_manager_state") == ("no", "no", "no")
    found = verified(host, capsys)
    assert words in found["refusal"]
    assert found["findings"][0]["name"] == "configuration-refused"
    assert "reservation-not-known" not in names(found["findings"])


def test_a_refused_configuration_is_one_finding_of_the_report(node: Path, capsys: Capture) -> None:
    configure(node, "memoryManagerPolicy: Static", "memoryManagerPolicy: bogus")
    found = [one for one in report(node, capsys)["findings"] if "configuration-refused" in one["message"]]
    assert [(one["name"], one["message"]) for one in found] == [
        ("restart-unsafe", 'configuration-refused: unknown policy: "bogus"')
    ]


def test_amounts_that_may_be_given_by_flags_are_not_known_instead(tmp_path: Path, capsys: Capture) -> None:
    host = node_of(SINGLE, tmp_path)
    configure(host.root, "kubeReserved: {cpu: 250m, memory: 100Mi}\nsystemReserved: {cpu: 250m, memory: 100Mi}\n", "")
    assert answers(host, capsys) == ("yes", "yes", "yes")
    assert "reservation-not-known" in names(verified(host, capsys)["findings"])


def test_a_static_policy_without_its_checkpoint_is_a_finding_everywhere(node: Path, capsys: Capture) -> None:
    (node / "var/lib/kubelet/memory_manager_state").unlink()
    (one,) = [one for one in report(node, capsys)["findings"] if one["name"] == "checkpoint-absent"]
    assert one["message"].startswith("no file /var/lib/kubelet/memory_manager_state, though ")
    assert "drain the node" in one["remedy"]
    found = verified(Host.under(node), capsys)
    assert (found["valid"], found["startsNow"], names(found["findings"])) == (True, "yes", {"checkpoint-absent"})
    (check,) = [one for one in checks_of(Host.under(node)) if one.name == MEMORY]
    assert (check.state, "checkpoint-absent" in check.detail) == ("reduced", True)
    configure(node, "memoryManagerPolicy: Static", "memoryManagerPolicy: None")
    assert "checkpoint-absent" not in names(report(node, capsys)["findings"])


def test_huge_pages_that_differ_may_be_right_again_after_a_reboot(tmp_path: Path, capsys: Capture) -> None:
    host = node_of(SINGLE, tmp_path)
    (host.nodes / "node0/hugepages/hugepages-2048kB/nr_hugepages").write_text("12\n")
    found = verified(host, capsys)
    assert (found["startsNow"], found["startsAfterReboot"], found["valid"]) == ("no", "at risk", False)
    assert answers(host, capsys) == ("no", "no", "no")


def test_a_host_without_a_kubelet_is_asked_about_the_newest_one(tmp_path: Path) -> None:
    file = tmp_path / MEMORY
    (tmp_path / "proc").mkdir()
    shutil.copy(node_of(SINGLE, tmp_path / "other").kubelet / MEMORY, file)
    (found,) = examine_files(file, Host.under(tmp_path), AskedKubelet(), needs_machine=False)
    assert (found.starting.kubelet.memory_policy, found.starting.sources) == (None, {"version": "default"})
