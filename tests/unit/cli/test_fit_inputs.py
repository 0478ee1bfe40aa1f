"""What `numaudit fit -f` and a scenario take for a pod: workloads, lists, several documents, the standard input."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from documentation.schemas import validate
from made_up.scenarios import Plain, machine, play, pod, scenario
from numaudit.cli.main import call
from numaudit.containermanager.plain import Document
from numaudit.scenario.manifests import read_manifests

Capture = pytest.CaptureFixture[str]
POD = pod("a", "1Gi")
SPEC = POD["spec"]
OWNED = {"metadata": {"labels": {"app": "web"}}, "spec": SPEC}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}


def workload(kind: str, spec: Plain) -> Plain:
    return {"kind": kind, "metadata": {"name": "web", "namespace": "prod"}, "spec": spec}


@pytest.fixture
def where(tmp_path: Path) -> tuple[str, str]:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario(machine("4Gi", "4Gi"), [])))
    return ("--node", str(path))


def fits(capsys: Capture, path: Path, where: tuple[str, str], *documents: object) -> list[dict[str, Any]]:
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    assert call(["fit", "-f", str(path), *where, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    validate(found, found["kind"])
    return list(found["items"]) if found["kind"] == "ExplanationList" else [found]


@pytest.mark.parametrize(
    ("document", "owner"),
    [
        (workload("Deployment", {"replicas": 3, "template": OWNED}), "Deployment web"),
        (workload("StatefulSet", {"template": OWNED}), "StatefulSet web"),
        (workload("DaemonSet", {"template": OWNED}), "DaemonSet web"),
        (workload("Job", {"template": OWNED}), "Job web"),
        (workload("CronJob", {"jobTemplate": {"spec": {"template": OWNED}}}), "CronJob web"),
        (workload("Rollout", {"template": OWNED}), "Rollout web"),
        (
            {"kind": "PodTemplate", "metadata": {"name": "web", "namespace": "prod"}, "template": OWNED},
            "PodTemplate web",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_workload_is_answered_for_a_pod_of_its_template(
    capsys: Capture, tmp_path: Path, where: tuple[str, str], document: Plain, owner: str
) -> None:
    (found,) = fits(capsys, tmp_path / "web.yaml", where, document)
    (alone,) = fits(capsys, tmp_path / "pod.yaml", where, POD)
    assert (found["pod"], found["owner"], alone["owner"]) == ("prod/web", owner, None)
    assert (found["admitted"], found["containers"]) == (True, alone["containers"])


def group(**beside: object) -> Plain:
    return {**beside, "template": OWNED}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        (
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "leaderTemplate": OWNED, "workerTemplate": OWNED}},
            [
                ("leader", "leaderWorkerTemplate.leaderTemplate", 2),
                ("worker", "leaderWorkerTemplate.workerTemplate", 6),
            ],
        ),
        (
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": OWNED}},
            [("", "leaderWorkerTemplate.workerTemplate", 8)],
        ),
        (
            "RayJob",
            {
                "rayClusterSpec": {
                    "headGroupSpec": group(rayStartParams={}),
                    "workerGroupSpecs": [group(groupName="gpu", replicas=3, numOfHosts=2), group(groupName="cpu")],
                }
            },
            [
                ("head", "rayClusterSpec.headGroupSpec.template", None),
                ("gpu", "rayClusterSpec.workerGroupSpecs[0].template", 6),
                ("cpu", "rayClusterSpec.workerGroupSpecs[1].template", None),
            ],
        ),
        (
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "w", "replicas": 3, "template": {"spec": group(parallelism=4, completions=8)}}
                ]
            },
            [("", "replicatedJobs[0].template.spec.template", 12)],
        ),
        (
            "MPIJob",
            {"mpiReplicaSpecs": {"Launcher": group(replicas=1), "Worker": group(replicas=5)}},
            [("launcher", "mpiReplicaSpecs.Launcher.template", 1), ("worker", "mpiReplicaSpecs.Worker.template", 5)],
        ),
        (
            "Job",  # of Volcano
            {"tasks": [group(name="ps", replicas=1), group(name="worker", replicas=2)]},
            [("ps", "tasks[0].template", 1), ("worker", "tasks[1].template", 2)],
        ),
        (
            "InferenceService",
            {"predictor": {"minReplicas": 1, **SPEC}},
            [("", "predictor", None)],
        ),
        (
            "AppWrapper",
            {"components": [{"podSpec": SPEC}, {"template": workload("Deployment", group(replicas=2))}]},
            [("", "components[0].podSpec", None), ("", "components[1].template.spec.template", 2)],
        ),
        (
            "Workflow",
            {"entrypoint": "main", "templates": [{"name": "main", "container": SPEC["containers"][0]}, {"dag": {}}]},
            [("", "templates[0], without the containers that Argo adds", None)],
        ),
    ],
)
def test_pods_of_any_workload_are_found_by_their_shape(
    kind: str, spec: Plain, expected: list[tuple[str, str, int | None]]
) -> None:
    found = read_manifests([Document("file", workload(kind, spec))])
    assert [(one.owner, one.replicas) for one in found] == [
        (f"{kind} web spec.{path}", count) for _, path, count in expected
    ]
    if kind != "AppWrapper":
        assert [one.pod.name for one in found] == [f"web-{title}".rstrip("-") for title, _, _ in expected]
    alone = read_manifests([Document("pod", POD)])[0].pod
    for one in found:
        assert one.pod.namespace == "prod"
        assert [part.resources for part in one.pod.containers] == [part.resources for part in alone.containers]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            workload("VirtualMachine", {"template": {"spec": {"domain": {"cpu": {"cores": 4}}}}}),
            "spec.template.spec.domain: a virtual machine has no pod spec; give its virt-launcher pod",
        ),
        (workload("VirtualMachineInstance", {"domain": {}}), "spec.domain: a virtual machine has no pod spec"),
        (
            workload("TrainJob", {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}}),
            "only TrainJob web; its pods are described by the runtime torch: give that, or one of its pods",
        ),
        (
            workload("ClusterPolicy", {"rules": [{"validate": {"pattern": {"spec": SPEC}}}]}),
            "there is no pod in it, only ClusterPolicy web",
        ),
    ],
)
def test_where_the_pods_are_not_in_the_file_it_says_where(
    capsys: Capture, tmp_path: Path, where: tuple[str, str], document: Plain, message: str
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    assert call(["fit", "-f", str(path), *where]) == 2
    assert message in capsys.readouterr().err


def test_an_error_in_a_template_names_its_place(capsys: Capture, tmp_path: Path, where: tuple[str, str]) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("""kind: MPIJob
metadata: {name: a}
spec:
  mpiReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: b
            resorces: {}
""")
    assert call(["fit", "-f", str(path), *where]) == 2
    place = "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resorces"
    assert f"{path}:10: {place}: unknown field; did you mean resources?" in capsys.readouterr().err


def test_lists_and_documents_are_taken_apart_and_what_has_no_pods_is_passed_over(
    capsys: Capture, tmp_path: Path, where: tuple[str, str]
) -> None:
    items = [{"metadata": {"generateName": "one-"}, "spec": SPEC}, pod("b", "1Gi")]
    listed = {"kind": "PodList", "apiVersion": "v1", "items": items}
    nested = {"kind": "List", "items": [SERVICE, {"kind": "List", "items": [pod("c", "9Gi")]}]}
    found = fits(capsys, tmp_path / "all.yaml", where, SERVICE, listed, None, nested)
    assert [(one["pod"], one["admitted"]) for one in found] == [
        ("default/one", True),
        ("default/b", True),
        ("default/c", False),
    ]


def test_several_pods_begin_with_how_many_fit(capsys: Capture, tmp_path: Path, where: tuple[str, str]) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(yaml.safe_dump_all([POD, pod("b", "9Gi")]))
    assert call(["fit", "-f", str(path), *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 of 2 pods would be admitted, each by itself"
    assert call(["fit", "-f", str(path), *where, "--fail-on-reject"]) == 1


def test_each_pod_of_a_file_is_asked_for_without_the_others(
    capsys: Capture, tmp_path: Path, where: tuple[str, str]
) -> None:
    """Either takes a node for itself; together with a third they would not fit."""
    found = fits(capsys, tmp_path / "pods.yaml", where, *(pod(name, "3Gi") for name in "abc"))
    assert [one["admitted"] for one in found] == [True] * 3


def test_a_dash_is_the_standard_input(capsys: Capture, where: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(POD).encode())))
    assert call(["fit", "-f", "-", *where]) == 0
    assert capsys.readouterr().out.startswith("default/a: fits here")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Service\nmetadata: {name: web}", "FILE:1: there is no pod in it, only Service web; give a v1 Pod"),
        ("kind: List\nitems: []", "FILE:1: there is no pod in it, only an empty list"),
        ("--- \n---\n", "FILE: it is empty"),
        (
            "kind: Service\n---\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [\n{nam: a}]}}}",
            "FILE:6: spec.template.spec.containers[0].nam: unknown field; did you mean name?",
        ),
        (
            "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a}\n"
            "  spec:\n    containers:\n    - {name: b, resources: {limits: {memory: x}}}",
            "FILE:7: items[0].spec.containers[0].resources.limits.memory:",
        ),
        ("kind: Job\nspec: {template: {spec: {containers: [{name: a}]}}}", "FILE:2: spec.template.metadata.name:"),
        ("kind: List\nitems: {a: 1}", "FILE:2: items: must be a list, not dict"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_line(
    capsys: Capture, tmp_path: Path, where: tuple[str, str], text: str, message: str
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    assert call(["fit", "-f", str(path), *where]) == 2
    assert capsys.readouterr().err.startswith(f"numaudit: {message.replace('FILE', str(path))}")


def test_a_scenario_admits_the_pods_of_a_workload_and_of_a_list() -> None:
    steps = [{"admit": workload("Deployment", {"template": OWNED})}, {"admit": {"kind": "List", "items": [POD]}}]
    played = play(scenario(machine("4Gi", "4Gi"), steps))
    assert sorted(one.full_name for one in played.state.pods.values()) == ["default/a", "prod/web"]


def _fit(tmp_path: Path, kubelet: str) -> int:
    machine, configuration, pod = tmp_path / "machine.yaml", tmp_path / "config.yaml", tmp_path / "pod.yaml"
    machine.write_text("nodes: [{id: 0, cpus: 0-7, memory: 64Gi}]\n")
    configuration.write_text(kubelet)
    pod.write_text("metadata: {name: p}\nspec: {containers: [{name: c}]}\n")
    return call(["fit", "-f", str(pod), "--node", str(tmp_path)])


def test_a_misspelt_field_of_a_kubelets_file_is_named_and_ignored(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert _fit(tmp_path, "kind: KubeletConfiguration\nmaxPods: 9\nmemorymanagerPolicy: Static\n") == 0
    said = capsys.readouterr()
    assert f"{tmp_path}/config.yaml:3: memorymanagerPolicy: unknown field, ignored as by a kubelet" in said.err
    assert "did you mean memoryManagerPolicy" in said.err
    assert "maxPods" not in said.err
    assert "The Memory Manager policy is None" in said.out


def test_a_misspelt_field_is_named_where_the_kubelet_refuses_for_its_lack(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert _fit(tmp_path, "kind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedCpus: 0-1\n") == 2
    error = capsys.readouterr().err
    assert "config.yaml:2: cpuManagerPolicy: [cpumanager] unable to determine reserved CPU resources" in error
    assert (
        "config.yaml:3: reservedCpus: unknown field, ignored as by a kubelet; did you mean reservedSystemCPUs" in error
    )


def test_a_misspelt_field_is_named_where_the_kubelet_does_not_start_with_its_state(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "k.yaml").write_text("kind: KubeletConfiguration\nmemorymanagerPolicy: Static\n")
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "apiVersion: numaudit/v1\nkind: Scenario\nmachine: {nodes: [{id: 0, cpus: 0-7, memory: 64Gi}]}\n"
        "kubelet: {file: k.yaml}\nstate: {memory: {policyName: Static, machineState: {}}}\nsteps: []\n"
    )
    assert call(["simulate", str(scenario)]) == 2
    error = capsys.readouterr().err
    assert "the kubelet does not start with it" in error
    assert "k.yaml:2: memorymanagerPolicy: unknown field, ignored as by a kubelet; did you mean memory" in error


_KUBEADM = "kind: ClusterConfiguration\n---\nkind: {}\nmemoryManagerPolicy: static\n"


def test_the_kubelets_document_of_kubeadms_file_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert _fit(tmp_path, _KUBEADM.format("KubeletConfiguration")) == 2
    assert (
        'config.yaml:4: memoryManagerPolicy: unknown policy: "static"; did you mean Static?' in capsys.readouterr().err
    )
    assert _fit(tmp_path, _KUBEADM.format("InitConfiguration")) == 2
    assert "config.yaml:3: " in (error := capsys.readouterr().err)
    assert "another begins; 0 are of kind KubeletConfiguration" in error
    assert "give the one in force: kubectl get --raw /api/v1/nodes/NODE/proxy/configz" in error


_INIT = "kind: InitConfiguration\nnodeRegistration:\n  kubeletExtraArgs:\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{_INIT}    memory-manager-policy: static\n",
        f"{_INIT}  - {{name: memory-manager-policy, value: static}}\n",
        f"{_INIT}    memory-manager-policy: static\n---\nkind: ClusterConfiguration\n",
        f"{_INIT}    memory-manager-policy: static\n---\nkind: KubeletConfiguration\nmemoryManagerPolicy: None\n",
        "version: v1alpha1\nmachine: {kubelet: {extraArgs: {memory-manager-policy: static}}}\n---\n"
        "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n",
    ],
)
def test_flags_that_kubeadm_or_talos_give_a_kubelet_are_read_beside_other_documents(
    text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert _fit(tmp_path, text) == 2
    assert 'unknown policy: "static"; did you mean Static?' in capsys.readouterr().err
