"""CPU lists of nodes that are broken or cannot be read: every verb says so, and none gives a wrong answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixture_trees import FIXTURES
from hosts.tree_copies import lent
from numaudit.cli.main import call
from numaudit.containermanager.plain import Document
from numaudit.errors import InputError
from numaudit.scenario.machine import read_machine

Capture = pytest.CaptureFixture[str]
NODE = FIXTURES / "misaligned-node"
"""Two CPUs on each of four nodes; exclusive CPUs: gu-small 1, gu-two 2-3, gu-huge 4, gu-init 5, gu-sidecar 6-7."""


@pytest.fixture
def tree() -> Iterator[Path]:
    with lent(NODE) as root:
        yield root


def _change(tree: Path, nodes: str, change: Callable[[str], str]) -> None:
    for node in nodes:
        file = tree / f"sys/devices/system/node/node{node}/cpulist"
        file.write_text(change(file.read_text()))


def _answer(capsys: Capture, tree: Path, *words: str) -> tuple[int, str]:
    code = call([*words, "--root", str(tree)])
    out, err = capsys.readouterr()
    return code, out or err


@pytest.mark.parametrize("verb", ["report", "forecast", "nrt", "doctor", "topology", "headroom"])
def test_a_nul_byte_at_the_end_of_a_cpu_list_changes_no_answer(capsys: Capture, tree: Path, verb: str) -> None:
    before = _answer(capsys, NODE, verb)
    _change(tree, "0123", lambda text: f"{text}\0")
    code, said = _answer(capsys, tree, verb)
    assert (code, said.replace(str(tree), str(NODE))) == before


def test_verdicts_that_depend_on_unknown_cpus_are_unknown_and_the_others_stay(capsys: Capture, tree: Path) -> None:
    _change(tree, "12", lambda text: "")
    _, said = _answer(capsys, tree, "report", "-o", "json")
    report = json.loads(said)
    own = [one for one in report["containers"] if one["kind"] == "container" and one["pod"].startswith("gu-")]
    verdicts = {f"{one['pod']}/{one['container']}": one for one in own}
    assert {name: one["verdict"]["name"] for name, one in verdicts.items()} == {
        "gu-init-numanode/app": "drifted",
        "gu-small-numanode/app": "unknown",
        "gu-two-numanode/a": "unknown",
        "gu-two-numanode/b": "unknown",
        "gu-huge-numanode/app": "unknown",
        "gu-sidecar-numanode/app": "aligned",
        "gu-sidecar-numanode/side": "aligned",
        "gu-frac-numanode/app": "aligned",
    }
    assert verdicts["gu-two-numanode/a"]["allowedCpuNodes"] is None
    assert [node["cpus"] for node in report["nodes"]] == ["0-1", None, None, "6-7"]
    (found,) = (one for one in report["findings"] if one["name"] == "cpus-not-placed")
    assert found["message"].endswith("nodes 1-2 cannot be read (cpulist, cpumap, links); CPUs 2-5 are on no node")


def test_no_verb_compares_a_kubelet_with_a_machine_whose_cpus_are_unknown(capsys: Capture, tree: Path) -> None:
    _change(tree, "12", lambda text: "")
    for verb in (["forecast"], ["nrt"], ["state", "verify"]):
        code, said = _answer(capsys, tree, *verb)
        assert (code, "the CPUs of nodes 1-2 cannot be read" in said) == (3, True), verb
    code, said = _answer(capsys, tree, "doctor", "-o", "json")
    (nodes,) = (one for one in json.loads(said)["checks"] if one["name"] == "numa nodes")
    assert (code, nodes["state"]) == (1, "reduced")
    assert "2 with CPUs; the CPUs of nodes 1-2 cannot be read" in nodes["detail"]


def test_topology_fails_where_cpus_of_a_node_are_unknown(capsys: Capture, tree: Path) -> None:
    _change(tree, "3", lambda text: "six\n")
    code, table = _answer(capsys, tree, "topology")
    assert (code, "3        ?  ?" in table, "no node\n" in table) == (1, True, True)
    code, document = _answer(capsys, tree, "topology", "-o", "json")
    assert (code, json.loads(document)["nodes"][3]["cpus"]) == (1, None)
    with pytest.raises(InputError, match=r"nodes\[3\]\.cpus.*the CPUs of this node were not known"):
        read_machine(Document("machine.json", json.loads(document)))
