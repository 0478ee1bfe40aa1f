"""`numaudit fit -f`: of a captured host, of files, of the end of a scenario; its document and its exit codes."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from documentation.schemas import validate
from made_up.scenarios import Plain, machine, play, pod, scenario
from numaudit.cli.main import call
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import node_on
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.memorymanager.admission import NodeState, admit, remove

Capture = pytest.CaptureFixture[str]


def write(folder: Path, name: str, given: Plain) -> str:
    (folder / name).write_text(yaml.safe_dump(given, sort_keys=False))
    return str(folder / name)


def document(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert call(["fit", *arguments, "-o", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(found, "Explanation")
    return found


def test_a_pod_is_explained_at_the_end_of_a_scenario(capsys: Capture, tmp_path: Path) -> None:
    given = scenario(machine("128Gi", "128Gi"), [{"admit": pod("small", "1Gi")}])
    wide = pod("wide", "200Gi")
    arguments = ("-f", write(tmp_path, "pod.yaml", wide), "--node", write(tmp_path, "scenario.yaml", given))
    found = document(capsys, *arguments)
    played = play(given)
    expected = admit(played.kubelet, played.state, read_pod(wide))
    assert expected.rejection is not None
    assert (found["pod"], found["admitted"]) == ("default/wide", False)
    assert (found["reason"], found["message"]) == (expected.rejection.reason, expected.rejection.message)
    assert found["outcome"] == "rejected-group-rule"
    (decision,) = found["decisions"]
    verdicts = {tuple(one["nodes"]): one["verdict"] for one in decision["candidates"]}
    assert verdicts == {(0,): "too-small", (1,): "too-small", (0, 1): "breaks-a-group"}
    assert [one["provider"] for one in decision["providers"]] == ["devices", "cpu", "memory"]
    assert decision["merge"]["combinations"] == 1
    assert found["admittingChanges"][0]["kind"] == "remove-pod"
    document(capsys, *arguments, "--fail-on-reject", code=1)


def test_a_gate_that_is_not_modelled_and_may_decide_leaves_the_answer_open(capsys: Capture, tmp_path: Path) -> None:
    nodes = machine("11Gi", "11Gi")
    nodes["nodes"][1]["hugepages"] = {"2Mi": 512}
    gate = {"MemoryManagerHugepagesVerification": True}
    given = {**scenario(nodes, []), "kubernetesVersion": "1.38", "featureGates": gate}
    there = ("--node", write(tmp_path, "scenario.yaml", given), "--make-room")
    huge = write(tmp_path, "huge.yaml", pod("huge", **{"hugepages-2Mi": "100Mi"}))
    found = document(capsys, "-f", huge, *there, "--fail-on-reject", code=5)
    assert "too few hugepages-2Mi free on its nodes" in found["notKnown"]
    assert found["makeRoom"] is None
    assert any("--make-room was left out" in one for one in found["notices"])
    assert call(["fit", "-f", huge, *there]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("default/huge: cannot tell: with the feature gate MemoryManagerHugepagesVerification")
    assert not any("would" in line for line in rest)
    plain = document(capsys, "-f", write(tmp_path, "plain.yaml", pod("plain")), *there, "--fail-on-reject")
    assert (plain["notKnown"], plain["admitted"], plain["makeRoom"]["pods"]) == (None, True, [])


def test_the_answer_and_what_would_help_come_before_the_evidence(capsys: Capture, tmp_path: Path) -> None:
    given = scenario(machine("128Gi", "128Gi"), [{"admit": pod("small", "1Gi")}])
    wide = write(tmp_path, "pod.yaml", pod("wide", "200Gi"))
    assert call(["fit", "-f", wide, "--node", write(tmp_path, "scenario.yaml", given)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "default/wide: refused, rejected-group-rule"
    assert lines[1].startswith(
        "It needs 200Gi of memory, which takes two nodes: no single node has more than 128Gi allocatable. "
    )
    evidence = lines.index("container app")
    assert "0-1    breaks-a-group: containers use node 0 alone or in another group" in lines[evidence:]
    assert "The kubelet tries 1 combination of hints." in lines[evidence:]
    assert lines[evidence - 3].startswith(
        "Deleting pod default/small (frees 1Gi of memory on node 0) would let it in, with its memory on nodes 0-1."
    )


def test_a_captured_host_gives_machine_configuration_and_state(capsys: Capture, tmp_path: Path, fixtures: Path) -> None:
    root = str(fixtures / "kubernetes-four-nodes")
    found = document(capsys, "-f", write(tmp_path, "pod.yaml", pod("a", "1200Mi", cpu="500m")), "--root", root)
    assert found["admitted"] is False
    candidates = found["decisions"][0]["candidates"]
    assert len(candidates) == 15
    assert {one["verdict"] for one in candidates} == {"too-small", "breaks-a-group"}
    assert "and 4 more" in found["sentence"] or "holds" in found["sentence"]
    small = document(capsys, "-f", write(tmp_path, "pod.yaml", pod("a", "50Mi", cpu="200m")), "--root", root)
    assert (small["admitted"], small["outcome"]) == (True, "aligned-single")


def test_a_provider_that_no_node_fits_prefers_none(capsys: Capture, tmp_path: Path, fixtures: Path) -> None:
    """Whole CPUs, of which none is free there."""
    file = write(tmp_path, "pod.json", pod("web", memory="1Gi", cpu="2"))
    assert call(["fit", "-f", file, "--root", str(fixtures / "kubernetes-four-nodes")]) == 0
    out = capsys.readouterr().out
    assert "No node is left for cpu." in out
    assert "prefer different" not in out


def test_pods_of_a_captured_host_are_named_in_the_ways_in(capsys: Capture, tmp_path: Path, fixtures: Path) -> None:
    wanted = write(tmp_path, "pod.yaml", pod("a", "900Mi", cpu="500m"))
    found = document(capsys, "-f", wanted, "--root", str(fixtures / "kubernetes-four-nodes"))
    removals = [one["change"] for one in found["admittingChanges"] if one["kind"] == "remove-pod"]
    assert removals
    assert all(one.startswith("Deleting pod default/") for one in removals)


def test_a_node_may_be_described_by_files_alone(capsys: Capture, tmp_path: Path) -> None:
    given = scenario(machine("11Gi", "11Gi", "11Gi"), [{"admit": pod("big", "15Gi")}])
    (tmp_path / "node").mkdir()
    write(tmp_path, "node/machine.yaml", given["machine"])
    write(tmp_path, "node/config.yaml", given["kubelet"])
    wanted = write(tmp_path, "pod.yaml", pod("a", "5Gi"))
    files = ("-f", wanted, "--node", str(tmp_path / "node"))
    assert document(capsys, *files)["sentence"] == "It needs 5Gi of memory. Node 0 is the first free node."
    path = write(tmp_path, "scenario.yaml", given)
    assert call(["simulate", path, "-o", "json"]) == 0
    state = json.loads(capsys.readouterr().out)["state"]["memory"]
    (tmp_path / "node/memory_manager_state").write_text(json.dumps(state))
    found = document(capsys, *files)
    assert found["sentence"] == "It needs 5Gi of memory. Node 2 is the first free node."


def test_the_node_of_a_capture_is_the_same_by_either_option(capsys: Capture, tmp_path: Path, fixtures: Path) -> None:
    wanted, tree = write(tmp_path, "pod.yaml", pod("a", "50Mi", cpu="200m")), str(fixtures / "kubernetes-four-nodes")
    assert document(capsys, "-f", wanted, "--node", tree) == document(capsys, "-f", wanted, "--root", tree)


@pytest.mark.parametrize(
    ("files", "more", "says"),
    [
        ({"config.yaml": "{}"}, (), "has a kubelet's files, but no machine.json; write it on that node"),
        ({"machine.json": "{}"}, (), "has no config.yaml; copy the kubelet's configuration file there"),
        ({}, (), "--node node: is empty; give what `numaudit capture` wrote; or give a scenario"),
        ({"machine.json": "{}"}, ("--root", "node"), "--node and --root both name the node"),
    ],
)
def test_a_folder_that_describes_no_node_is_refused(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], more: tuple[str, ...],
    says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node").mkdir()
    for name, text in files.items():
        (tmp_path / "node" / name).write_text(text)
    assert call(["fit", "-f", write(tmp_path, "pod.yaml", pod("a")), "--node", "node", *more]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("user", "is_live", "says"), [(0, True, ""), (1, True, ", as root,"), (1, False, "")])
def test_a_host_without_a_kubelet_cannot_answer(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, is_live: bool, says: str
) -> None:
    """Who is root already, or reads a capture, is not sent to become root."""
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr(Host, "is_live", property(lambda _: is_live))
    (tmp_path / "root/proc").mkdir(parents=True)
    (tmp_path / "root/sys").mkdir()
    monkeypatch.setattr(Host, "here", lambda: Host.under(tmp_path / "root"))
    assert call(["fit", write(tmp_path, "pod.yaml", pod("a"))]) == 3
    assert f"; run it on a node{says} or describe one with --node" in capsys.readouterr().err


def test_a_mistake_in_the_file_is_said_before_the_kubelet_is_asked(
    capsys: Capture, tmp_path: Path, fixtures: Path
) -> None:
    wanted = write(tmp_path, "pod.yaml", {**pod("a"), "spec": {"container": []}})
    assert call(["fit", wanted, "--root", str(fixtures / "single-node-hybrid")]) == 2
    assert "spec.container: unknown field; did you mean containers" in capsys.readouterr().err


@pytest.mark.parametrize(("nodes", "lines"), [(4, 4), (5, 3), (8, 3)])
def test_a_refusal_has_what_is_free_in_numbers_and_folds_the_deletions_that_help(
    capsys: Capture, tmp_path: Path, nodes: int, lines: int
) -> None:
    """Each node has 31Gi less the node's reservation of 1Gi on node 0, and a pod of 20Gi."""
    steps = [{"admit": pod(f"db-{number}", "20Gi")} for number in range(nodes)]
    where = ("--node", write(tmp_path, "scenario.yaml", scenario(machine(*["31Gi"] * nodes), steps)))
    assert call(["fit", write(tmp_path, "pod.yaml", pod("web", "24Gi")), *where]) == 0
    text = capsys.readouterr().out
    assert (
        f"It needs 24Gi of memory. No node has 24Gi free (the most: 11Gi, on nodes 1-{nodes - 1}). "
        f"Nodes 0-{nodes - 1} together have the memory, but containers use them alone or in another group ("
    ) in " ".join(text.split())
    assert text.count("Deleting pod ") == lines
    assert (f"{nodes - lines} more deletions would let it in; -o json lists them." in text) is (nodes > lines)


def test_the_file_is_given_by_place_or_by_option_and_once(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("--node", write(tmp_path, "scenario.yaml", scenario(machine("11Gi"), [])))
    wanted = write(tmp_path, "pod.yaml", pod("a", "1Gi"))
    by_option, by_place = document(capsys, "-f", wanted, *there), document(capsys, wanted, *there)
    assert by_place | {"takenAt": None} == by_option | {"takenAt": None}
    assert by_place["admitted"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(wanted).read_bytes())))
    assert document(capsys, "-", *there)["pod"] == by_place["pod"]
    for twice in ((wanted, "-f", wanted), (wanted, wanted), ()):
        assert call(["fit", *twice, *there]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "FILE" in err or "unexpected extra argument" in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Deployment"}, "kind: a v1 Pod is needed, not 'Deployment'"),
        ({"spec": {"container": []}}, "spec.container: unknown field; did you mean containers"),
        ({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}, "two containers are named 'a'"),
    ],
)
def test_a_pod_that_is_none_is_refused(capsys: Capture, tmp_path: Path, change: Plain, message: str) -> None:
    wanted = write(tmp_path, "pod.yaml", {**pod("a"), **change})
    path = write(tmp_path, "scenario.yaml", scenario(machine("11Gi"), []))
    assert call(["fit", "-f", wanted, "--node", path]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert wanted in err


def test_a_device_that_no_plugin_has_registered_is_named(capsys: Capture, tmp_path: Path) -> None:
    wanted = write(tmp_path, "pod.yaml", pod("a", **{"vendor.example/nic": "1"}))
    path = write(tmp_path, "scenario.yaml", scenario(machine("11Gi"), []))
    assert call(["fit", "-f", wanted, "--node", path]) == 0
    assert "no device plugin has registered vendor.example/nic there" in capsys.readouterr().err


def test_a_scenario_is_the_whole_node(capsys: Capture, tmp_path: Path) -> None:
    wanted = write(tmp_path, "pod.yaml", pod("a"))
    path = write(tmp_path, "scenario.yaml", scenario(machine("11Gi"), []))
    assert call(["fit", "-f", wanted, "--node", path, "--kubernetes-version", "1.28"]) == 2
    assert "describes the whole node" in capsys.readouterr().err


def test_the_pods_to_delete_are_named_as_kubectl_takes_them(capsys: Capture, tmp_path: Path) -> None:
    before = [{"admit": pod("small", "1Gi")}, {"admit": pod("other", "2Gi")}]
    given = write(tmp_path, "scenario.yaml", scenario(machine("128Gi", "128Gi"), before))
    wide = write(tmp_path, "pod.yaml", pod("wide", "200Gi"))
    found = document(capsys, "-f", wide, "--node", given, "--make-room")["makeRoom"]
    assert [one["command"] for one in found["pods"]] == [
        "kubectl delete pod -n default other",
        "kubectl delete pod -n default small",
    ]
    assert found["exact"]
    assert call(["fit", "-f", wide, "--node", given, "--make-room"]) == 0
    lines = capsys.readouterr().out.splitlines()
    evidence = lines.index("container app")
    assert lines[evidence - 7].startswith("Making room: deleting 2 pods would let it in, and no smaller set would")
    assert lines[evidence - 6] == "  kubectl delete pod -n default other"
    assert lines[evidence - 2].startswith("Nothing was deleted.")


def test_a_pod_that_fits_needs_no_room(capsys: Capture, tmp_path: Path) -> None:
    given = write(tmp_path, "scenario.yaml", scenario(machine("11Gi"), []))
    assert call(["fit", "-f", write(tmp_path, "pod.yaml", pod("a")), "--node", given, "--make-room"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "default/a: fits here by NUMA rules only: admitted, aligned-single"
    assert lines[lines.index("container app") - 2] == "Making room: no pod has to be deleted."


def test_nobody_is_named_unless_asked_for(capsys: Capture, tmp_path: Path) -> None:
    given = write(tmp_path, "scenario.yaml", scenario(machine("11Gi"), [{"admit": pod("a", "9Gi")}]))
    wanted = write(tmp_path, "pod.yaml", pod("b", "5Gi"))
    assert document(capsys, "-f", wanted, "--node", given)["makeRoom"] is None


def test_the_pods_are_those_of_the_folder_that_the_kubelet_was_started_with(
    capsys: Capture, tmp_path: Path, fixtures: Path
) -> None:
    root = shutil.copytree(fixtures / "kubernetes-four-nodes", tmp_path / "host", symlinks=True)
    wanted = write(tmp_path, "pod.yaml", pod("a", "900Mi"))
    before = document(capsys, "-f", wanted, "--root", str(root))
    (root / "srv").mkdir()
    (root / "var/lib/kubelet").rename(root / "srv/kubelet")
    flags = b"kubelet\0--config=/etc/kubernetes/kubelet.yaml\0--root-dir=/srv/kubelet\0"
    (root / "proc/347/cmdline").write_bytes(flags)
    assert document(capsys, "-f", wanted, "--root", str(root)) == before


def test_the_room_on_a_captured_host_is_the_smallest_by_brute_force(
    capsys: Capture, tmp_path: Path, fixtures: Path
) -> None:
    root = fixtures / "kubernetes-four-nodes"
    here = node_on(Host.under(root), AskedKubelet())
    state = here.state
    for memory, count in (("900Mi", 1), ("960Mi", 1), ("1500Mi", None)):
        wanted = pod("a", memory, cpu="500m")
        fits = {
            size: [
                some
                for some in combinations(state.pods, size)
                if admit(here.setup.kubelet, _without(state, some), read_pod(wanted)).admitted
            ]
            for size in range(len(state.pods) + 1)
        }
        least = next((size for size, some in fits.items() if some), None)
        arguments = ("-f", write(tmp_path, "pod.yaml", wanted), "--root", str(root), "--make-room")
        found = document(capsys, *arguments)["makeRoom"]
        assert found["exact"]
        assert least == count
        if least is None:
            assert found["pods"] is None
        else:
            assert tuple(one["uid"] for one in found["pods"]) in fits[least]


def test_a_static_pod_is_nothing_for_kubectl(capsys: Capture, tmp_path: Path, fixtures: Path) -> None:
    wanted = write(tmp_path, "pod.yaml", pod("a", "900Mi", cpu="500m"))
    arguments = ("-f", wanted, "--root", str(fixtures / "kubernetes-four-nodes"), "--make-room")
    (leaving,) = document(capsys, *arguments)["makeRoom"]["pods"]
    assert (leaving["name"], leaving["command"]) == ("gu-sidecar-numanode", None)
    assert call(["fit", *arguments]) == 0
    assert "  Move the manifest of static pod default/gu-sidecar-numanode away" in capsys.readouterr().out


def test_a_pod_whose_name_no_command_could_take_stays(capsys: Capture, tmp_path: Path) -> None:
    hostile = pod("--all", "9Gi")
    given = write(tmp_path, "scenario.yaml", scenario(machine("11Gi"), [{"admit": hostile}]))
    code = call(["fit", "-f", write(tmp_path, "pod.yaml", pod("b", "5Gi")), "--node", given, "--make-room"])
    out, err = capsys.readouterr()
    assert "kubectl delete" not in out
    assert code == 2 or "Left out: 1 of the pods here" in out, err


def _without(state: NodeState, uids: Iterable[str]) -> NodeState:
    for uid in uids:
        state = remove(state, uid)
    return state


def _workload(folder: Path, memory: str, replicas: int) -> str:
    template = {"spec": pod("web", memory, "20m")["spec"]}
    given = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": replicas, "template": template}}
    return write(folder, "workload.yaml", given)


def _how_many(setup_root: Path, memory: str) -> int:
    """By the library: the same pod again and again until the kubelet refuses it."""
    here = node_on(Host.under(setup_root), AskedKubelet())
    state = here.state
    for number in range(200):
        admission = admit(here.setup.kubelet, state, read_pod(pod(f"web-{number}", memory, "20m")))
        if not admission.admitted:
            return number
        state = admission.state
    raise AssertionError(memory)


@pytest.mark.parametrize("memory", ["20Mi", "400Mi", "900Mi", "64Gi"])
def test_as_many_replicas_fit_as_the_kubelet_admits_one_after_the_other(
    capsys: Capture, tmp_path: Path, fixtures: Path, memory: str
) -> None:
    root = fixtures / "kubernetes-four-nodes"
    fit = _how_many(root, memory)
    for asked in (1, fit, fit + 1):
        found = document(capsys, "-f", _workload(tmp_path, memory, asked), "--root", str(root))
        assert found["replicas"] == {"asked": max(1, asked), "fit": min(max(1, asked), fit)}
        assert found["admitted"] == (fit > 0)


def test_the_number_of_replicas_may_be_asked_for_and_decides_the_exit_code(
    capsys: Capture, tmp_path: Path, fixtures: Path
) -> None:
    root = fixtures / "kubernetes-four-nodes"
    fit = _how_many(root, "400Mi")
    assert fit > 1
    asked = ("-f", _workload(tmp_path, "400Mi", fit + 1), "--root", str(root), "--fail-on-reject")
    assert document(capsys, *asked)["replicas"] == {"asked": fit + 1, "fit": fit}
    document(capsys, *asked, "--count", str(fit))
    document(capsys, *asked, "--count", str(fit + 1), code=1)
    assert call(["fit", *asked]) == 0
    assert f"{fit} of {fit + 1} such pods fit, one after the other." in capsys.readouterr().out
