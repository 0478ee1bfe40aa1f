"""Names that do harm, in every view for people: shown as they are, or escaped; never obeyed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from hosts.hostile_names import HOSTILE
from hosts.tree_copies import lent
from numaudit.cli.main import call

MARKUP = ("[red]x[/red] [link=file:///etc]y[/link]", "[/]", "x" * 4096)
NAMES = [name for name in (*HOSTILE, *MARKUP) if "\udcff" not in name]
"""JSON has no bytes that are not UTF-8."""
POD = "11909391e6eae33a104bafa75980e9ea"
LARGE = {"requests": {"cpu": "1", "memory": "900Mi"}, "limits": {"cpu": "1", "memory": "900Mi"}}

View = Callable[[Path], list[str]]


def _large_pod(root: Path) -> list[str]:
    spec = {"containers": [{"name": "app", "resources": LARGE}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large", "uid": "large"}, "spec": spec}
    (root / "large.json").write_text(json.dumps(pod))
    return ["fit", "-f", str(root / "large.json"), "--make-room"]


VIEWS: dict[str, View] = {
    "report": lambda _: ["report"],
    "wide": lambda _: ["report", "-o", "wide"],
    "page": lambda _: ["explain", POD],
    "page of a pod without a promise": lambda _: ["explain", "ff58f962cbbc5044803ce6a615d4cf57"],
    "pages of refused pods": lambda _: ["explain", "3a439d32de7a0f8a2af2645b48fd3707"],
    "headroom": lambda _: ["headroom"],
    "state": lambda _: ["state", "show"],
    "room": _large_pod,
}


@pytest.fixture(params=NAMES, ids=range(len(NAMES)), scope="module")
def hostile(request: pytest.FixtureRequest, fixtures: Path) -> Iterator[tuple[Path, str]]:
    """A node whose namespaces and pods are called so, by /pods and by the log."""
    name: str = request.param
    with lent(fixtures / "misaligned-node") as root:
        _rename_pods(root, name)
        yield root, name


def _rename_pods(root: Path, name: str) -> None:
    (root / "numaudit/podresources-list.pb").unlink()
    file = root / "numaudit/pods.json"
    pods = json.loads(file.read_text())
    for number, one in enumerate(pods["items"]):
        one["metadata"] |= {"namespace": name, "name": f"{name}{number}"}
    file.write_text(json.dumps(pods))
    log = root / "numaudit/kubelet.log"
    log.write_text(log.read_text().replace("default/gu-toobig-numanode", json.dumps(f"{name}/{name}")[1:-1]))


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_the_object_for_schedulers_has_a_hostile_name_whole(
    hostile: tuple[Path, str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root, name = hostile
    assert call(["nrt", "--root", str(root), "-o", output]) == 0
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.split("\n"))
    annotations = yaml.safe_load(out)["metadata"]["annotations"]
    assert all(one.isprintable() for key, one in annotations.items() if key != "numaudit.io/groups")
    named = [one for group in json.loads(annotations["numaudit.io/groups"])["groups"] for one in group["pods"]]
    assert named
    assert all(one.startswith(f"{name}/{name}") for one in named)


@pytest.mark.parametrize("view", VIEWS)
def test_a_hostile_name_is_inert(hostile: tuple[Path, str], view: str, capsys: pytest.CaptureFixture[str]) -> None:
    root, name = hostile
    assert call([*VIEWS[view](root), "--root", str(root)]) == 0
    out, err = capsys.readouterr()
    for line in (*out.split("\n"), *err.split("\n")):
        assert line.isprintable(), ascii(line)
    if name.isprintable() and len(name) < 100:
        assert name in out


@pytest.mark.parametrize("verb", ["report", "explain"])
def test_a_message_that_names_what_is_near_is_inert(
    hostile: tuple[Path, str], verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root, name = hostile
    for asked in (f"{name}X", name[:-1] + "zz", "nobody"):
        assert call([verb, asked, "--root", str(root)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert all(line.isprintable() for line in err.split("\n")), ascii(err)
        assert len(err) < 20_000
