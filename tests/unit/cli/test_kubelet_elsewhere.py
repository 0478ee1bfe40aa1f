"""Each verb asks the kubelet that the settings name, as the agent does: in a pod it listens at another address."""

from __future__ import annotations

import json
import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import NoReturn

import pytest
import yaml

from fixture_trees import FIXTURES
from hosts.tree_copies import lent
from kubelets.http import Answer, replies, serving
from made_up.probes import made_up_session
from numaudit.cli.main import VERBS, call
from numaudit.cli.manager import run_work
from numaudit.cli.observe import top
from numaudit.doctor import checks
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.session import Session
from numaudit.views.top import app
from numaudit.views.top.news import Feed, News, TickBegan, TickFigures
from processes.certificates import Authority

Capture = pytest.CaptureFixture[str]
PATIENCE = 60.0
"""Seconds, on a busy machine."""
TOKEN = "token-of-the-settings"
REFUSED = "gu-toobig-numanode"
"""A pod that this kubelet refused: nothing but its /pods says so."""


@dataclass
class Kubelet:
    """A recorded one that listens where only the settings say."""

    root: Path
    answer: Answer
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def node(fixtures: Path) -> Iterator[Path]:
    with lent(fixtures / "kubernetes-four-nodes") as copy:
        yield copy


@pytest.fixture
def recorded(node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubelet:
    """A captured node passes for the live one. Its kubelet's configuration and answers come over HTTP alone."""
    root = node
    answers = (root / "numaudit").rename(tmp_path / "answers")
    (configuration,) = (root / "etc/kubernetes").iterdir()
    in_force = {"kubeletconfig": yaml.safe_load(configuration.read_text())}
    shutil.rmtree(root / "etc")
    bodies = {
        "/pods": (answers / "pods.json").read_bytes(),
        "/metrics": (answers / "kubelet-metrics.txt").read_bytes(),
        "/configz": json.dumps(in_force).encode(),
    }
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        asked.append(request.path)
        replies(bodies[request.path])(request)

    monkeypatch.setattr(Host, "is_live", property(lambda host: host.root == root))
    defaults = (root, *(Host.__init__.__defaults__ or ())[1:])
    monkeypatch.setattr(Host.__init__, "__defaults__", defaults)
    monkeypatch.setattr(checks, "check_sources", lambda _: ())
    monkeypatch.setattr(Session, "open", lambda *_, **__: made_up_session()[1])
    token, log, file = tmp_path / "token", answers / "kubelet.log", tmp_path / "agent.yaml"
    token.write_text(TOKEN)
    file.write_text(f"kubelet: {{token_file: {token}, log_file: {log}}}\ninterval: often\n")
    monkeypatch.setenv("NUMAUDIT_CONFIG", str(file))
    return Kubelet(root, answer, asked)


@pytest.fixture
def kubelet(recorded: Kubelet, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kubelet]:
    with serving(recorded.answer) as url:
        monkeypatch.setenv("NUMAUDIT_KUBELET_URL", url)
        yield recorded


def _runs(capsys: Capture, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    code = call([*arguments])
    out, err = capsys.readouterr()
    assert code in codes, err
    return out


def _report(_: Path, capsys: Capture, __: pytest.MonkeyPatch) -> None:
    found = json.loads(_runs(capsys, "report", "-o", "json"))
    assert REFUSED in {one["pod"] for one in found["rejections"]}


def _state(root: Path, capsys: Capture, _: pytest.MonkeyPatch) -> None:
    kept = str(root / "var/lib/kubelet/memory_manager_state")
    assert "gu-small-numanode" in _runs(capsys, "state", "show")
    _runs(capsys, "state", "verify")
    _runs(capsys, "state", "diff", kept)


def _forecast(_: Path, capsys: Capture, __: pytest.MonkeyPatch) -> None:
    forecast = ("forecast", "-o", "json")
    elsewhere, captured = (
        json.loads(_runs(capsys, *forecast, *more))
        for more in ((), ("--root", str(FIXTURES / "kubernetes-four-nodes")))
    )
    assert elsewhere["pods"] == captured["pods"]
    assert {one["fate"] for one in elsewhere["pods"]} == {"kept"}


def _headroom(_: Path, capsys: Capture, __: pytest.MonkeyPatch) -> None:
    _runs(capsys, "headroom")


def _setup(_: Path, capsys: Capture, __: pytest.MonkeyPatch) -> None:
    assert "no kubelet was found here" not in _runs(capsys, "setup", "--all")


def _ranks(_: Path, capsys: Capture, __: pytest.MonkeyPatch) -> None:
    _runs(capsys, "ranks")


def _nrt(_: Path, capsys: Capture, __: pytest.MonkeyPatch) -> None:
    assert "default/gu-small-numanode" in _runs(capsys, "nrt")


def _explain(root: Path, capsys: Capture, _: pytest.MonkeyPatch) -> None:
    page = _runs(capsys, "explain", f"default/{REFUSED}")
    assert "log and this recomputation agree" in page


def _fit(root: Path, capsys: Capture, _: pytest.MonkeyPatch) -> None:
    wanted = root / "pod.yaml"
    resources = {"cpu": "500m", "memory": "900Mi"}
    container = {"name": "app", "resources": {"requests": resources, "limits": resources}}
    wanted.write_text(json.dumps({"metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": [container]}}))
    room = _runs(capsys, "fit", "-f", str(wanted), "--make-room")
    assert "default/gu-" in room


def _doctor(_: Path, capsys: Capture, __: pytest.MonkeyPatch) -> None:
    found = json.loads(_runs(capsys, "doctor", "-o", "json", codes=(0, 1)))
    assert any(one["name"] == "memory_manager_state" for one in found["checks"])
    pages = {one["name"]: one["state"] for one in found["checks"] if one["name"].startswith("kubelet /")}
    assert pages == {"kubelet /pods": "ok", "kubelet /configz": "ok", "kubelet /metrics": "ok"}


def _capture(root: Path, capsys: Capture, _: pytest.MonkeyPatch) -> None:
    _runs(capsys, "capture", "--duration", "0", str(root.parent / "copy"))
    answers = root.parent / "copy/numaudit"
    assert REFUSED in (answers / "pods.json").read_text()
    assert (answers / "kubelet.log").stat().st_size > 0


class _Enough(BaseException):
    """The verb has made its first tick."""


def _first_tick(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """What the verb measures is of no interest here, but the kubelet that its observer asks is."""
    observe = Observer.observe

    def once(self: Observer, *_: object, **__: object) -> NoReturn:
        snapshot = observe(self)
        assert snapshot.intent is not None
        assert REFUSED in {one.name for one in (snapshot.intent.pods or {}).values()}
        raise _Enough

    monkeypatch.setattr(Observer, "observe", once)
    with pytest.raises(_Enough):
        call([*arguments])


def _assert(_: Path, __: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    _first_tick(monkeypatch, "assert", "--max-remote", "5%", "gu-small-numanode")


def _run(root: Path, _: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a command runs in a cgroup of its own is not the kubelet's business, but the report at its end is."""
    group = SimpleNamespace(id=1, path=root)
    placement = SimpleNamespace(container="command", memory=(), cpus=None)
    monkeypatch.setattr(run_work, "hold", lambda *_: nullcontext(SimpleNamespace(group=group, placement=placement)))
    monkeypatch.setattr(run_work, "_start", lambda *_: SimpleNamespace(wait=lambda _, tick: tick()))
    _first_tick(monkeypatch, "run", "--report", "--memory", "1Mi", "--beside-kubelet", "--", "true")


def _top(_: Path, __: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    found: SimpleQueue[News] = SimpleQueue()
    taken: list[News] = []

    class Blind:
        """A screen that ends with the first tick: until then the feed must not be stopped."""

        error = None

        def __init__(self, feed: Feed, *_: object, **__: object) -> None:
            self.feed = feed

        def run(self) -> bool:
            self.feed.start(found.put)
            assert isinstance(found.get(timeout=PATIENCE), TickBegan)
            taken.append(found.get(timeout=PATIENCE))
            return False

    monkeypatch.setattr(top, "_require_a_terminal", lambda: None)
    monkeypatch.setattr(app, "Top", Blind)
    assert call(["top"]) == 0
    (first,) = taken
    assert isinstance(first, TickFigures)
    assert REFUSED in {one.pod for one in first.whole.rejections}


ASKING: dict[str, Callable[[Path, Capture, pytest.MonkeyPatch], None]] = {
    "report": _report,
    "state": _state,
    "explain": _explain,
    "fit": _fit,
    "headroom": _headroom,
    "nrt": _nrt,
    "setup": _setup,
    "ranks": _ranks,
    "forecast": _forecast,
    "doctor": _doctor,
    "capture": _capture,
    "assert": _assert,
    "run": _run,
    "top": _top,
}


SILENT: dict[str, list[str]] = {
    "topology": ["topology"],
    "simulate": ["simulate", "docs/examples/walk-through.yaml"],
    "config": ["config", "show"],
    "help": ["help", "glossary"],
}
"""Those that need no kubelet."""


@pytest.mark.parametrize("verb", ASKING)
def test_a_verb_asks_the_kubelet_that_the_settings_name(
    verb: str, kubelet: Kubelet, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ASKING[verb](kubelet.root, capsys, monkeypatch)
    assert {"/configz", "/metrics"} <= set(kubelet.asked)


@pytest.mark.parametrize("arguments", SILENT.values(), ids=SILENT)
def test_a_verb_that_needs_no_kubelet_asks_none(arguments: list[str], kubelet: Kubelet, capsys: Capture) -> None:
    _runs(capsys, *arguments, codes=(0, 2, 3))
    assert kubelet.asked == []


def test_every_verb_is_tried() -> None:
    """The agent's own tests have it ask a kubelet at an address of the settings."""
    assert set(VERBS) == {*ASKING, *SILENT, "agent"}


def test_a_verb_trusts_the_authority_of_the_settings_and_no_other(
    recorded: Kubelet, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "own")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("node.example", tmp_path))
    with serving(recorded.answer, tls=tls) as url:
        monkeypatch.setenv("NUMAUDIT_KUBELET_URL", url)
        monkeypatch.setenv("NUMAUDIT_KUBELET_CA_FILE", str(authority.certificate))
        assert "log and this recomputation agree" in _runs(capsys, "explain", f"default/{REFUSED}")
        assert "/pods" in recorded.asked
        recorded.asked.clear()
        monkeypatch.setenv("NUMAUDIT_KUBELET_CA_FILE", str(other.certificate))
        found = json.loads(_runs(capsys, "report", "-o", "json"))
    (pods,) = (one for one in found["sources"] if one["source"] == "pods")
    assert pods["state"] == "unavailable"
    assert f"{url}/pods: " in pods["reason"] and "CERTIFICATE_VERIFY_FAILED" in pods["reason"]
    assert recorded.asked == []


def test_a_setting_of_the_kubelet_that_is_wrong_is_named_and_another_is_not(
    kubelet: Kubelet, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMAUDIT_LISTEN", "nowhere")
    monkeypatch.setenv("NUMAUDIT_KUBELET_URL", "nowhere")
    assert call(["report"]) == 2
    assert "environment NUMAUDIT_KUBELET_URL: kubelet.url must be an http:// or https:// URL" in capsys.readouterr().err
    assert kubelet.asked == []


def test_a_captured_tree_has_its_own_kubelet_whatever_the_settings_say(
    kubelet: Kubelet, capsys: Capture, fixtures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMAUDIT_KUBELET_URL", "nowhere")
    found = json.loads(_runs(capsys, "report", "-o", "json", "--root", str(fixtures / "kubernetes-four-nodes")))
    assert REFUSED in {one["pod"] for one in found["rejections"]}
    assert kubelet.asked == []
