"""`numaudit simulate`: its documents, its exit codes, and what it says of files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from documentation.schemas import validate
from made_up.scenarios import Plain, machine, pod, scenario
from numaudit.cli.main import call
from numaudit.config import yaml_document

Capture = pytest.CaptureFixture[str]
NODES = machine("11Gi", "11Gi", "11Gi")


def write(folder: Path, given: Plain | str, name: str = "scenario.yaml") -> Path:
    path = folder / name
    path.write_text(given if isinstance(given, str) else yaml.safe_dump(given, sort_keys=False))
    return path


def document(capsys: Capture, path: Path, *more: str, code: int = 0) -> dict[str, Any]:
    assert call(["simulate", str(path), "-o", "json", *more]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(found, "Simulation")
    return found


def refused(capsys: Capture, path: Path) -> str:
    """The message for a file that is wrong; nothing is printed."""
    assert call(["simulate", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_each_step_has_what_the_pod_got_and_the_memory_map_in_the_words_of_the_checkpoint(
    capsys: Capture, tmp_path: Path
) -> None:
    path = write(tmp_path, scenario(NODES, [{"admit": pod("a", "15Gi")}]))
    found = document(capsys, path)
    assert (found["apiVersion"], found["kind"]) == ("numaudit/v1", "Simulation")
    step = found["steps"][0]
    assert (step["step"], step["admitted"], step["reason"], step["outcome"]) == (1, True, None, "aligned-multi")
    assert step["containers"]["app"] == {
        "hint": {"nodes": [0, 1], "preferred": True},
        "outcome": "aligned-multi",
        "blocks": [{"numaAffinity": [0, 1], "type": "memory", "size": 15 << 30}],
        "cpusetMems": [0, 1],
        "cpus": None,
        "devices": {},
        "deviceChoices": {},
    }
    assert step["machineState"]["1"]["memoryMap"]["memory"]["free"] == 6 << 30
    assert step["machineState"]["1"]["cells"] == [0, 1]
    assert found["state"]["memory"]["machineState"] == step["machineState"]
    assert {name: sorted(found["state"][name])[:1] for name in found["state"]} == {
        "memory": ["checksum"],
        "cpu": ["checksum"],
        "devices": ["Checksum"],
    }


def test_a_device_of_several_equal_ones_is_one_of_them(capsys: Capture, tmp_path: Path) -> None:
    nic = "vendor.example/nic"
    of = {**NODES, "devices": {nic: {"nic0": 0, "nic1": 1, "nic2": [0, 1]}}}
    kubelet = {"topologyManagerPolicy": "single-numa-node"}
    pods = [{"admit": pod("a", **{nic: "1"})}, {"admit": pod("b", **{nic: "1"})}, {"admit": pod("c", **{nic: "1"})}]
    path = write(tmp_path, scenario(of, pods, kubelet))
    one, other, third = (step["containers"]["app"] for step in document(capsys, path)["steps"])
    for place in (one, other):
        assert (place["devices"], place["deviceChoices"]) == ({}, {nic: {"count": 1, "among": ["nic0", "nic2"]}})
    assert (third["devices"], third["deviceChoices"]) == ({nic: ["nic1"]}, {})
    assert call(["simulate", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.count("vendor.example/nic one of nic0, nic2") == 2
    assert "vendor.example/nic nic1" in out


def test_a_refusal_is_exit_code_1_only_when_asked_for(capsys: Capture, tmp_path: Path) -> None:
    path = write(tmp_path, scenario(NODES, [{"admit": pod("a", "50Gi")}]))
    assert document(capsys, path)["steps"][0]["admitted"] is False
    found = document(capsys, path, "--fail-on-reject", code=1)
    assert found["steps"][0]["outcome"] == "rejected-capacity"
    assert found["steps"][0]["reason"] == "UnexpectedAdmissionError"
    fits = write(tmp_path, scenario(NODES, [{"admit": pod("a", "5Gi")}]))
    document(capsys, fits, "--fail-on-reject")


def test_the_orders_in_which_all_pods_fit_are_found(capsys: Capture, tmp_path: Path) -> None:
    pods = [pod("small", "6Gi"), pod("wide", "15Gi"), pod("other", "6Gi")]
    two = machine("11Gi", "11Gi", "11Gi")
    found = document(capsys, write(tmp_path, scenario(two, [{"admit": one} for one in pods])), "--orders")
    assert found["orders"]["complete"] is True
    assert ["default/small", "default/other", "default/wide"] not in found["orders"]["orders"]
    assert call(["simulate", str(write(tmp_path, scenario(two, [{"admit": one} for one in pods]))), "--orders"]) == 0
    assert "orders in which all pods are admitted" in capsys.readouterr().out


def test_the_search_for_orders_is_given_up_in_time(capsys: Capture, tmp_path: Path) -> None:
    pods = [{"admit": pod(f"p{number}", "1Gi")} for number in range(12)]
    found = document(capsys, write(tmp_path, scenario(NODES, pods)), "--orders")
    assert found["orders"]["complete"] is False
    assert len(found["orders"]["orders"]) == 100


def test_pods_machines_configurations_and_states_may_be_files(capsys: Capture, tmp_path: Path) -> None:
    given = scenario(NODES, [{"admit": {"file": "pod.yaml"}}])
    first = document(capsys, write(tmp_path, {**given, "steps": [{"admit": pod("before", "5Gi")}]}))
    write(tmp_path, pod("a", "15Gi"), "pod.yaml")
    (tmp_path / "machine.yaml").write_text(yaml.safe_dump(given["machine"]))
    (tmp_path / "kubelet.yaml").write_text(
        yaml.safe_dump({"kind": "KubeletConfiguration", "port": 10250, **given["kubelet"]})
    )
    (tmp_path / "memory_manager_state").write_text(json.dumps(first["state"]["memory"]))
    named = {
        **given,
        "machine": "machine.yaml",
        "kubelet": "kubelet.yaml",
        "state": {"memory": "memory_manager_state", "cpu": None},
    }
    found = document(capsys, write(tmp_path, named))
    assert found["steps"][0]["containers"]["app"]["hint"]["nodes"] == [1, 2]


def test_a_machine_may_be_what_topology_wrote(capsys: Capture, tmp_path: Path, fixtures: Path) -> None:
    assert call(["topology", "--root", str(fixtures / "kubernetes-four-nodes"), "-o", "json"]) == 0
    (tmp_path / "machine.json").write_text(capsys.readouterr().out)
    kubelet: Plain = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    kubelet |= {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "100Mi"}}]}
    given = scenario({}, [{"admit": pod("a", "100Mi")}], kubelet=kubelet)
    found = document(capsys, write(tmp_path, {**given, "machine": "machine.json"}))
    assert len(found["steps"][0]["machineState"]) == 4
    assert found["steps"][0]["containers"]["app"]["cpus"]


WRONG: dict[str, tuple[Any, str]] = {
    "a misspelt field": ({"kubelets": {}}, "kubelets: unknown field; did you mean kubelet or"),
    "a misspelt policy field": ({"kubelet": {"memoryManagerPolicies": "Static"}}, "did you mean memoryManagerPolicy"),
    "an unknown gate": ({"featureGates": {"PodLevelResourceManager": True}}, "did you mean PodLevelResourceManagers"),
    "a version that is a number": ({"kubernetesVersion": 1.36}, "kubernetesVersion: must be text"),
    "no version": ({"kubernetesVersion": "new"}, "kubernetesVersion: not a Kubernetes version"),
    "no machine": ({"machine": None}, "a scenario needs a machine"),
    "no nodes": ({"machine": {"nodes": []}}, "machine.nodes: a machine needs at least one node"),
    "a node without memory": ({"machine": {"nodes": [{"id": 0}]}}, "machine.nodes[0].memory: is missing; give a"),
    "a node twice": (
        {"machine": {"nodes": [*machine("1Gi")["nodes"], *machine("1Gi")["nodes"]]}},
        "node 0 is given twice",
    ),
    "an odd size": ({"machine": {"nodes": [{"id": 0, "memory": "11Gx"}]}}, "machine.nodes[0].memory: "),
    "a node beyond all nodes": (
        {"machine": {"nodes": [{"id": 99999999999, "memory": "1Gi"}]}},
        "machine.nodes[0].id: a node is a number below 1024",
    ),
    "a CPU beyond all CPUs": (
        {"machine": {**NODES, "cores": [[99999999999]]}},
        "machine.cores[0]: there is no CPU 99999999999",
    ),
    "a device on a node beyond all nodes": (
        {"machine": {**NODES, "devices": {"vendor.example/nic": {"nic0": 99999999999}}}},
        "there is no node 99999999999",
    ),
    "an absent node": (
        {"machine": {**NODES, "devices": {"vendor.example/nic": {"nic0": 7}}}},
        "machine.devices.vendor.example/nic.nic0: there is no node 7; the machine has 0-2",
    ),
    "an absent node with reservations": (
        {
            "kubelet": {
                "memoryManagerPolicy": "Static",
                "reservedMemory": [{"numaNode": 9, "limits": {"memory": "1Gi"}}],
            }
        },
        "references a NUMA node 9 that does not exist",
    ),
    "an absent device": (
        {"steps": [{"admit": pod("a", **{"vendor.example/nic": "1"})}]},
        "the machine has no device vendor.example/nic",
    ),
    "an unknown step": ({"steps": [{"delete": {"pod": "a"}}]}, "steps[0].delete: unknown field; it has admit, start"),
    "two steps in one": ({"steps": [{"admit": pod("a"), "remove": {"pod": "a"}}]}, "a step has exactly one of admit"),
    "an unknown pod": (
        {"steps": [{"admit": pod("alpha")}, {"remove": {"pod": "alpa"}}]},
        "steps[1].remove.pod: no earlier step admits a pod 'alpa'; did you mean alpha",
    ),
    "an unknown container": (
        {"steps": [{"admit": pod("a")}, {"start": {"pod": "a", "container": "ap"}}]},
        "steps[1].start.container: pod default/a has no container 'ap'; it has app",
    ),
    "a pod twice": (
        {"steps": [{"admit": pod("a")}, {"admit": pod("a")}]},
        "steps[1]: pod default/a is on the node already",
    ),
    "a misspelt field of a pod": (
        {"steps": [{"admit": {"metadata": {"name": "a"}, "spec": {"container": []}}}]},
        "steps[0].admit.spec.container: unknown field; did you mean containers",
    ),
    "an odd amount": (
        {"steps": [{"admit": pod("a", "much")}]},
        "steps[0].admit.spec.containers[0].resources.limits.memory: ",
    ),
    "a state of another form": ({"state": {"memory": {"policyName": 5}}}, "state.memory: not a memory_manager_state"),
    "a damaged state": (
        {"state": {"memory": {"policyName": "Static", "machineState": {}, "entries": {}, "checksum": 1}}},
        "state.memory: the checksum does not fit the content",
    ),
    "a state of another policy": (
        {"state": {"memory": {"policyName": "None", "machineState": {}, "entries": {}}}},
        "the kubelet does not start with it",
    ),
    "a list for steps": ({"steps": {}}, "steps: must be a list, not dict"),
    "an absent file": ({"steps": [{"admit": {"file": "gone.yaml"}}]}, "gone.yaml: No such file or directory"),
    "the scenario itself as a file": ({"machine": "scenario.yaml"}, "which cannot include itself"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_scenario_is_refused_with_file_line_and_path(capsys: Capture, tmp_path: Path, what: str) -> None:
    change, message = WRONG[what]
    path = write(tmp_path, {**scenario(NODES, []), **change})
    error = refused(capsys, path)
    assert message in error
    assert f"{path}:" in error
    line = int(error.split(f"{path}:")[1].split(":")[0])
    assert 1 <= line <= len(path.read_text().splitlines())


def test_huge_pages_of_one_node_are_zero_on_the_others(capsys: Capture, tmp_path: Path) -> None:
    nodes = machine("11Gi", "11Gi")
    nodes["nodes"][1]["hugepages"] = {"2Mi": 512}
    wanted = pod("a", "1Gi", **{"hugepages-2Mi": "100Mi"})
    found = document(capsys, write(tmp_path, scenario(nodes, [{"admit": wanted}])))
    assert found["steps"][0]["containers"]["app"]["cpusetMems"] == [1]
    assert found["state"]["memory"]["machineState"]["0"]["memoryMap"]["hugepages-2Mi"]["total"] == 0


def test_a_restart_that_names_a_version_keeps_the_feature_gates(capsys: Capture, tmp_path: Path) -> None:
    kubelet = {"topologyManagerScope": "pod"}
    level = pod("a", "1Gi")
    level["spec"]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    given = scenario(NODES, [{"restart": {"kubernetesVersion": "1.36"}}, {"admit": level}], kubelet)
    path = write(tmp_path, {**given, "featureGates": {"PodLevelResourceManagers": True}})
    assert "podEntries" in document(capsys, path)["state"]["memory"]


def test_the_line_is_that_of_the_field(capsys: Capture, tmp_path: Path) -> None:
    path = write(tmp_path, scenario(NODES, [{"admit": pod("a", "much")}]))
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "memory: much" in text)
    assert f"{path}:{line}: steps[0].admit.spec.containers[0].resources.limits.memory: " in refused(capsys, path)


def test_an_error_in_another_file_names_that_file(capsys: Capture, tmp_path: Path) -> None:
    write(tmp_path, "metadata: {name: a}\nspec:\n  containers:\n  - {name: app, resource: {}}\n", "pod.yaml")
    error = refused(capsys, write(tmp_path, scenario(NODES, [{"admit": {"file": "pod.yaml"}}])))
    assert f"{tmp_path / 'pod.yaml'}:4: spec.containers[0].resource: unknown field; did you mean resources?" in error


def test_a_file_that_is_no_yaml_is_named_with_the_place_that_names_it(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("metadata:\n  [unclosed\n")
    error = refused(capsys, write(tmp_path, scenario(NODES, [{"admit": {"file": "pod.yaml"}}])))
    assert f"steps[0].admit: {tmp_path / 'pod.yaml'}:" in error
    assert "not YAML" in error


def test_files_that_only_name_other_files_are_refused(capsys: Capture, tmp_path: Path) -> None:
    write(tmp_path, "file: b.yaml\n", "a.yaml")
    write(tmp_path, "file: a.yaml\n", "b.yaml")
    error = refused(capsys, write(tmp_path, scenario(NODES, [{"admit": {"file": "a.yaml"}}])))
    assert "it only names another file" in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("[unclosed", "not YAML"),
        ("- a list", "must be a mapping, not list"),
        ("kind: Scenario\nkind: Scenario\n", "scenario.yaml:2: kind is given twice, first in line 1"),
        ("a: &a [*a]\n", "write that out"),
        (f"a: &a [{'1,' * 99}]\nb: &b [{'*a,' * 99}]\nc: [{'*b,' * 99}]\n", "more than 20000 in all: write that out"),
        ("[" * 5000, "nested deeper than 40 levels"),
        ("kind: Scenario\napiVersion: v1\n", "apiVersion: must be numaudit/v1, not 'v1'"),
        ("kind: [Pod]\nspec: {}\n", "spec: unknown field"),
        ("x" * (11 << 20), "the file is larger than 4194304 bytes"),
        ("a: 2026-99-99\n", "not YAML"),
        ("? [a, b]\n: 1\n", "a key must be text"),
    ],
)
def test_what_is_no_scenario_is_refused(capsys: Capture, tmp_path: Path, text: str, message: str) -> None:
    assert message in refused(capsys, write(tmp_path, text))


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "Pod", **pod("a")},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a"},
            "spec": {"template": {"spec": pod("a")["spec"]}},
        },
        {"apiVersion": "v1", "kind": "List", "items": [pod("a")]},
    ],
    ids=["pod", "deployment", "list"],
)
def test_a_pod_instead_of_a_scenario_is_sent_to_the_verb_that_answers_for_it(
    capsys: Capture, tmp_path: Path, given: Plain
) -> None:
    said = refused(capsys, path := write(tmp_path, given, "a pod.yaml"))
    assert f"kind: it is a {given['kind']}, not a Scenario; `numaudit fit '{path}'` answers for its pods" in said
    assert call(["fit", str(path), "--node", str(write(tmp_path, scenario(NODES, [])))]) == 0
    assert "default/" in capsys.readouterr().out


def test_lines_are_looked_up_only_for_a_step_that_is_wrong(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look reads the file once more: for every step that took the square of the steps."""
    looks: list[str] = []

    def look(body: bytes, name: str, place: str, number: int = 0) -> int:
        looks.append(place)
        return real(body, name, place, number)

    real = yaml_document._line_of
    monkeypatch.setattr(yaml_document, "_line_of", look)
    steps = [step for name in "abc" for step in ({"admit": pod(name, "1Gi")}, {"remove": {"pod": name}})]
    document(capsys, write(tmp_path, scenario(NODES, steps)))
    assert looks == []
    path = write(tmp_path, scenario(NODES, [*steps, {"admit": pod("d", "1Gi")}, {"admit": pod("d", "2Gi")}]))
    assert f"{path}:" in refused(capsys, path)
    assert looks == ["steps[7]"]
