"""Does the kubelet start? `state verify`, the forecast, the report and its metrics give one answer."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixture_trees import FIXTURES
from kubelets.damaged_files import DAMAGES, KINDS, files_of
from numaudit.api.state_document import StateVerification, verifications
from numaudit.checkpoints.formats.file import DEVICES, MEMORY, CheckpointKind
from numaudit.checkpoints.start.outlook import worst
from numaudit.cli.main import call
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.exporters.catalogue import METRICS
from numaudit.exporters.metric import word
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import examine_files, forecast_on
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.memorymanager.forecast import Forecast
from numaudit.report.build import build
from numaudit.report.values import Report

Event = Literal["restart", "reboot"]

_RECORDED = FIXTURES / "kubernetes-restarts"


def node_before(event: Event, target: Path) -> Host:
    """A capture of the node with its running kubelet."""
    shutil.copytree(_RECORDED / "node", target)
    kubelet = target / "var/lib/kubelet"
    kubelet.mkdir(parents=True)
    for name in ("memory_manager_state", "cpu_manager_state"):
        shutil.copy(_RECORDED / event / name, kubelet)
    shutil.copy(_RECORDED / event / "pods.json", target / "numaudit")
    return Host.under(target)


def reboot(host: Host) -> None:
    """Give the nodes the memory that they had after the reboot."""
    for node, total in json.loads((_RECORDED / "reboot/totals-after.json").read_text()).items():
        meminfo = host.nodes / f"node{node}/meminfo"
        text = meminfo.read_text()
        changed = re.sub(r"MemTotal: +\d+ kB", f"MemTotal: {total // 1024} kB", text)
        assert changed != text
        meminfo.write_text(changed)


def log_after(event: Event) -> str:
    """What the kubelet wrote then about the pods that it refused, or about itself."""
    return (_RECORDED / event / "kubelet-after.log").read_text()


@dataclass(frozen=True)
class Tick:
    """What a metric of the host is made of."""

    report: Report


def verified(host: Host) -> tuple[StateVerification, ...]:
    return verifications(examine_files(None, host, AskedKubelet(), needs_machine=True)).items


def metric(name: str, report: Report) -> dict[tuple[str, ...], object]:
    (found,) = [one for one in METRICS if one.name == name]
    return dict(found.values(Tick(report)))


def check(host: Host) -> tuple[str, str]:
    """All answers about this tree are one; that about a restart, and about a reboot."""
    files = verified(host)
    answers = (worst(one.starts_now for one in files), worst(one.starts_after_reboot for one in files))
    report = build(Observer.of(host).observe())
    critical = [one.message for one in report.findings if one.name == "restart-unsafe"]
    for answer, one in zip(answers, report.restarts, strict=False):
        assert one.starts == answer
    assert [reboot for reboot, _ in metric("restart_starts", report)] == [
        str(one.reboot).lower() for one in report.restarts
    ]
    assert not critical or answers[0] != "yes", critical
    for later, answer in enumerate(answers):
        try:
            forecast = forecast_on(host, AskedKubelet(), reboot=bool(later))
        except Unavailable:
            assert answer != "no"
            continue
        assert forecast.starts == answer
        assert (str(bool(later)).lower(), word(answer)) in metric("restart_starts", report)
        if answer == "no":
            refuses_as_verified(forecast, files, later=bool(later))
    return answers


def refuses_as_verified(forecast: Forecast, files: tuple[StateVerification, ...], *, later: bool) -> None:
    stopped = [one for one in files if (one.starts_after_reboot if later else one.starts_now) == "no"]
    words = {one.refusal for one in stopped}
    assert forecast.refusal in words, (forecast.refusal, words)
    assert not forecast.is_safe and not forecast.is_open
    assert {one.name for one in forecast.obstacles} >= {
        found.name for one in stopped for found in one.findings if found.severity == "error"
    } - {"devices-lost"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Host:
    host = node_before("reboot", tmp_path_factory.mktemp("node") / "host")
    files_of(host)
    return host


def test_the_forecast_refuses_the_pod_that_the_kubelet_refused_at_its_restart_and_no_other(tmp_path: Path) -> None:
    found = forecast_on(node_before("restart", tmp_path / "host"), AskedKubelet(), reboot=False)
    (denied,) = re.findall(r'pod="([^"]+)" reason="(\w+)" message="([^"]+)"', log_after("restart"))
    assert [(f"{one.namespace}/{one.pod}", one.reason, one.message) for one in found.refused] == [denied]
    assert {one.fate for one in found.pods if one not in found.refused} == {"kept"}
    assert len(found.pods) == 8


def test_a_reboot_is_at_risk_before_it_and_refused_with_the_kubelets_words_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = node_before("reboot", tmp_path / "host")
    assert check(host) == ("yes", "at risk")
    root = str(host.root)
    assert call(["forecast", "--root", root]) == 0
    assert call(["forecast", "--reboot", "--root", root]) == 5
    out = capsys.readouterr().out
    assert "A restart of the kubelet would change nothing for its 11 Guaranteed pods" in out
    assert "The kubelet may not start after a reboot of the node. If it starts, that would" in out
    reboot(host)
    assert check(host) == ("no", "no")
    assert call(["forecast", "--root", root]) == 1
    (said,) = set(re.findall(r'Policy start error" err="([^"]+)"', log_after("reboot")))
    assert f"The kubelet would not start again: {said}\n" in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_has_one_answer(node: Host, kind: CheckpointKind, damage: str) -> None:
    path = files_of(node)[kind]
    before = path.read_bytes()
    path.write_bytes(DAMAGES[damage](before))
    try:
        try:
            check(node)
        except Unavailable:  # a file that verify cannot read; a forecast needs no devices
            if kind != DEVICES:
                with pytest.raises(Unavailable):
                    forecast_on(node, AskedKubelet(), reboot=False)
    finally:
        path.write_bytes(before)


bytes_of_json = st.sampled_from([b"", b"0", b"9", b"-", b'"', b",", b"{", b"}", b"[", b"]", b"a", b"\x00", b"\xff"])


@given(kind=st.sampled_from(KINDS[:2]), at=st.floats(0, 1), width=st.integers(0, 3), put=bytes_of_json)
def test_whatever_is_changed_in_a_file_there_is_one_answer(
    node: Host, kind: CheckpointKind, at: float, width: int, put: bytes
) -> None:
    path = files_of(node)[kind]
    before = path.read_bytes()
    place = round(at * len(before))
    path.write_bytes(before[:place] + put + before[place + width :])
    try:
        check(node)
    finally:
        path.write_bytes(before)


def test_a_memory_file_that_is_gone_leaves_it_open_where_its_pods_go(
    node: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    path = files_of(node)[MEMORY]
    before = path.read_bytes()
    path.unlink()
    try:
        found = forecast_on(node, AskedKubelet(), reboot=False)
        assert {one.fate for one in found.pods} == {"unknown"}
        assert (found.starts, found.is_safe) == ("yes", False)
        assert call(["forecast", "--root", str(node.root)]) == 5
        assert "whose present nodes are not known" in capsys.readouterr().out
    finally:
        path.write_bytes(before)
