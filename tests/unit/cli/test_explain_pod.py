"""`numaudit explain POD`: a page on a container that is here, its document, and what the verb refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from documentation.schemas import validate
from numaudit.cli.main import call
from numaudit.kernel.host import Host

Capture = pytest.CaptureFixture[str]
SECTIONS = [
    "verdict", "what to do", "promised", "why", "allowed by its cpuset", "resident", "accessed",
]  # fmt: skip


def page(capsys: Capture, *arguments: str) -> list[str]:
    assert call(["explain", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def document(capsys: Capture, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads("\n".join(page(capsys, *arguments, "-o", "json")))
    validate(found, "PlacementList")
    return found


def test_a_page_begins_with_the_verdict_and_what_to_do(capsys: Capture, fixtures: Path) -> None:
    lines = page(capsys, "gu-small-numanode/app", "--root", str(fixtures / "misaligned-node"))
    assert lines[0] == "default/gu-small-numanode/app"
    assert [line for line in lines[1:-2] if not line.startswith(" ")] == SECTIONS
    whole = page(capsys, "gu-small-numanode/app", "--root", str(fixtures / "misaligned-node"), "-o", "wide")
    assert [line for line in whole[1:-2] if not line.startswith(" ")] == [*SECTIONS, "cost", "processes"]
    assert "  memory 200Mi on node 0" in lines
    assert "  The log and this recomputation agree." in lines
    assert "  cpuset.cpus 2, on node 1" in lines
    assert any(line.startswith("  cpu-remote: 100% of the allowed CPUs") for line in lines)
    assert lines[lines.index("what to do") + 1].startswith("  Find out who wrote to its cpuset")


def test_every_admission_of_the_captured_kubelet_agrees_with_its_log(capsys: Capture, fixtures: Path) -> None:
    found = document(capsys, "default/*", "--root", str(fixtures / "kubernetes-four-nodes"))
    accounts = [one["admission"] for one in found["items"]]
    assert len(accounts) >= 12
    assert all(one["logged"] and one["derived"] and one["differences"] == [] for one in accounts)


def test_a_verdict_is_no_older_than_its_container(capsys: Capture, fixtures: Path) -> None:
    lines = page(capsys, "gu-init-numanode/app", "--root", str(fixtures / "misaligned-node"))
    assert "  the pod has been on this host since 2026-11-20 23:01:39 UTC" in lines
    about = lines[lines.index("verdict") : lines.index("what to do")]
    assert "  Since: before this reading." in about
    assert "  The container has been running since 2026-11-20 23:01:58 UTC." in about


def test_a_pod_has_a_page_for_each_of_its_containers(capsys: Capture, fixtures: Path) -> None:
    found = document(capsys, "gu-two-numanode", "--root", str(fixtures / "kubernetes-four-nodes"))
    assert [one["container"]["container"] for one in found["items"]] == ["a", "b"]
    merges = [one["admission"]["derived"]["merge"] for one in found["items"]]
    assert [one["container"] for one in merges] == ["a", "b"]


def test_a_refused_pod_has_a_page_with_the_rules_that_refused_it(capsys: Capture, fixtures: Path) -> None:
    words = "gu-toobig-numanode", "--root", str(fixtures / "kubernetes-four-nodes")
    lines = page(capsys, *words)
    assert lines[:2] == ["default/gu-toobig-numanode", "refused"]
    assert any("It needs" in line for line in lines)
    assert not any(line.startswith(("    memory ", "    Other hints: ")) for line in lines)
    assert any(line.startswith("    memory too-small: 0; 1; 2; 3") for line in page(capsys, *words, "-o", "wide"))
    assert lines[lines.index("what to do") + 1].startswith("  Run `numaudit fit pod.yaml --make-room`")


def test_a_resize_that_was_refused_is_named_with_both_amounts(capsys: Capture, tmp_path: Path, fixtures: Path) -> None:
    root = tmp_path / "host"
    shutil.copytree(fixtures / "misaligned-node", root, symlinks=True)
    file = root / "numaudit/pods.json"
    pods = json.loads(file.read_text())
    (pod,) = (one for one in pods["items"] if one["metadata"]["name"] == "gu-small-numanode")
    (container,), (status,) = pod["spec"]["containers"], pod["status"]["containerStatuses"]
    status["allocatedResources"] = dict(container["resources"]["requests"])
    for wish in container["resources"].values():
        wish["memory"] = "1200Mi"
    pod["status"]["conditions"].append({"type": "PodResizePending", "status": "True", "reason": "Infeasible"})
    file.write_text(json.dumps(pods))
    resize = "pending: Infeasible; container app has 200Mi of memory and wishes 1200Mi"
    assert document(capsys, "gu-small-numanode", "--root", str(root))["items"][0]["resize"] == resize
    lines = page(capsys, "gu-small-numanode", "--root", str(root))
    assert f"  In-place resize of the pod: {resize}." in lines
    assert "  memory 200Mi on node 0" in lines


def test_without_the_log_the_admission_is_derived_alone(capsys: Capture, tmp_path: Path, fixtures: Path) -> None:
    root = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", root, symlinks=True)
    (root / "numaudit/kubelet.log").unlink()
    found = document(capsys, "gu-small-numanode", "--root", str(root))["items"][0]["admission"]
    assert (found["logged"], found["differences"]) == (None, None)
    assert found["derived"] is not None
    assert "  The kubelet's log does not show its admission." in page(capsys, "gu-small-numanode", "--root", str(root))


def test_what_of_the_log_was_not_understood_is_said(capsys: Capture, tmp_path: Path, fixtures: Path) -> None:
    root = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", root, symlinks=True)
    log = root / "numaudit/kubelet.log"
    log.write_text(log.read_text().replace("hints={", "hints=<"))
    count = log.read_text().count("hints=<")
    gaps = f"{count} lines of a known kind were not understood"
    assert count > 10
    assert document(capsys, "gu-small-numanode", "--root", str(root))["items"][0]["admission"]["logGaps"] == gaps
    assert f"  The kubelet's log does not show its admission: {gaps}." in page(
        capsys, "gu-small-numanode", "--root", str(root)
    )


def test_without_the_kubelets_configuration_the_log_stands_alone(
    capsys: Capture, tmp_path: Path, fixtures: Path
) -> None:
    root = tmp_path / "host"
    shutil.copytree(fixtures / "kubernetes-four-nodes", root, symlinks=True)
    (root / "etc/kubernetes/kubelet.yaml").unlink()
    found = document(capsys, "gu-small-numanode", "--root", str(root))["items"][0]["admission"]
    assert found["derived"] is None
    assert "no configuration of a kubelet was found" in found["notDerived"]


def test_a_name_that_is_not_there_is_said_before_anything_is_measured(
    capsys: Capture, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numaudit.cli.options.Host.here", lambda: Host.under(fixtures / "misaligned-node"))
    assert call(["explain", "gu-two-numanod/c", "--duration", "24h"]) == 2
    assert "did you mean gu-two-numanode/b, gu-two-numanode/a" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'POD[/CONTAINER]'"),
        (["some-pod", "-f", "POD"], "No such option '-f'"),
        (["some-pod", "--make-room"], "No such option '--make-room'"),
        (["gu-small-numanode", "--duration", "1s", "--root", "ROOT"], "--root reads a captured tree"),
        (["nobody", "--root", "ROOT"], "no container matches 'nobody'"),
        (["\udcff", "--root", "ROOT"], r"no container matches '\xff'"),
        (["/system", "--root", "ROOT"], "is not a container of a pod"),
    ],
)
def test_what_does_not_go_together_is_refused(
    capsys: Capture, tmp_path: Path, fixtures: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Pod")
    names = {"POD": str(tmp_path / "pod.yaml"), "ROOT": str(fixtures / "kubernetes-four-nodes")}
    assert call(["explain", *(names.get(one, one) for one in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_a_page_has_the_ranks_of_a_container_in_a_sentence(capsys: Capture, fixtures: Path) -> None:
    lines = page(capsys, "vllm-0/server", "--root", str(fixtures / "ranks"))
    said = lines[lines.index("ranks") + 1]
    assert said.startswith("  2 of 4 ranks are where they were bound; VLLM::Worker_TP3 (4104): 256Mi of 1Gi on node 0")
