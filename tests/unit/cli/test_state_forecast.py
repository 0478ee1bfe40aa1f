"""`numaudit forecast` on a captured node, as it is and with another configuration."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from msgspec import structs
from msgspec.structs import replace
from rich.console import Console

from documentation.schemas import validate
from numaudit.cli.main import call
from numaudit.engine.observer import Observer
from numaudit.evaluation.findings import find
from numaudit.exporters.catalogue import METRICS
from numaudit.kernel.host import Host
from numaudit.kubelet.sources import process
from numaudit.memorymanager.forecast import Fate, Forecast, PodForecast
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.terminal.simulation_tables import print_forecast

GONE = PodForecast("1", "prod", "db", "refused", NodeSet.of(0), None, CpuSet.of(1), None, "SMTAlignmentError", "SMT")


@pytest.fixture
def node(captured: Callable[[str], Host]) -> Host:
    return captured("kubernetes-four-nodes")


def test_a_node_where_nothing_changed_keeps_its_pods(node: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["forecast", "--root", str(node.root)]) == 0
    out = capsys.readouterr().out
    assert "A restart of the kubelet would change nothing for its 6 Guaranteed pods" in out
    assert "kept: 6 pods, on the nodes and CPUs that they have now; -o wide lists them\n" in out
    assert "default/gu-two-numanode" not in out
    assert call(["forecast", "--root", str(node.root), "-o", "wide"]) == 0
    out = capsys.readouterr().out
    assert "default/gu-two-numanode" in out
    assert "kept:" not in out


def test_pods_that_are_kept_are_one_line_below_those_that_are_not() -> None:
    out = io.StringIO()
    kept = [structs.replace(GONE, uid=f"{n}", pod=f"kept-{n}", fate="kept", nodes_then=NodeSet.of(0)) for n in range(9)]
    print_forecast(Forecast(False, "yes", None, (), (*kept, GONE)), Console(file=out, width=120))
    _, titles, gone, line = out.getvalue().splitlines()
    assert titles.startswith("POD")
    assert gone.startswith("prod/db  refused")
    assert line == "kept: 9 pods, on the nodes and CPUs that they have now; -o wide lists them"


def test_a_gate_that_the_asked_version_lacks_stops_the_kubelet(node: Host, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--kubernetes-version", "1.23", "--feature-gates", "InPlacePodVerticalScaling=true"]
    assert call(["forecast", "--root", str(node.root), *asked]) == 1
    assert "unrecognized feature gate: InPlacePodVerticalScaling" in capsys.readouterr().out
    assert call(["forecast", "--root", str(node.root), *asked[:1], "1.27", *asked[2:]]) != 1


def test_the_document_keeps_to_its_schema(node: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["forecast", "--reboot", "--root", str(node.root), "-o", "json"]) == 5
    document = json.loads(capsys.readouterr().out)
    validate(document, "RestartForecast")
    assert (document["reboot"], document["starts"], document["refusal"]) == (True, "at risk", None)
    assert [one["name"] for one in document["obstacles"]] == ["reboot-may-change-totals"]
    two = next(one for one in document["pods"] if one["pod"] == "gu-two-numanode")
    assert (two["fate"], two["nodesNow"], two["nodesThen"], two["cpusNow"]) == ("kept", [1], [1], "2-3")


def test_another_reservation_stops_the_kubelet_and_the_forecast_goes_on_without_its_files(
    node: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "node"
    shutil.copytree(node.root, copy, symlinks=True)
    answers = Path(copy, "numaudit")
    for file in (*answers.glob("configz*"), *process.config_files(Host.under(copy))):
        text = file.read_text()
        configuration = yaml.safe_load(text)
        body = configuration.get("kubeletconfig", configuration)
        body["reservedMemory"] = [{**one, "numaNode": (one["numaNode"] + 1) % 4} for one in body["reservedMemory"]]
        file.write_text(json.dumps(configuration))
    assert call(["forecast", "--root", str(copy)]) == 1
    out = capsys.readouterr().out
    assert (
        "The kubelet would not start again: "
        "[memorymanager] the expected machine state is different from the real one" in out
    )


def test_a_host_without_a_kubelet_says_so(captured: Callable[[str], Host], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["forecast", "--root", str(captured("single-node-hybrid").root)]) == 3
    assert capsys.readouterr().err == (
        "numaudit: no kubelet has run on this host, so there is no restart to forecast; run it on a node, as root, or "
        "give a captured one with --root\n"
    )


def test_refused_pods_are_counted_in_the_metric_and_named_by_the_finding(node: Host) -> None:
    snapshot = Observer.of(node).observe()
    assert snapshot.intent is not None
    assert [one.reboot for one in snapshot.intent.forecasts] == [False, True]
    assert [one.starts for one in snapshot.intent.forecasts] == ["yes", "at risk"]
    forecasts = (Forecast(False, "yes", None, (), (GONE,)), Forecast(True, "no", "it does not start", (), (GONE,)))
    changed = replace(snapshot, intent=replace(snapshot.intent, forecasts=forecasts))
    report = build(changed)
    assert _series(report) == [(("false",), 1)]
    assert _series(build(snapshot)) == [(("false",), 0), (("true",), 0)]
    (found,) = [one for one in find(changed) if one.name == "restart-refuses-pods"]
    assert found.message == "a restart of the kubelet would refuse prod/db: SMTAlignmentError: SMT"


def _series(report: Report) -> list[object]:
    (metric,) = [one for one in METRICS if one.name == "restart_refused_pods"]

    class Tick:
        def __init__(self, report: Report) -> None:
            self.report = report

    return list(metric.values(Tick(report)))


@pytest.mark.parametrize(("fates", "says"), [
    (("kept", "kept"), "A restart of the kubelet would change nothing for its 2 Guaranteed pods."),
    (("kept", "refused"), "A restart of the kubelet would refuse 1 and keep 1 of its 2 Guaranteed pods."),
    (("elsewhere",), "A restart of the kubelet would move 1 of its 1 Guaranteed pod."),
    (("refused", "elsewhere", "kept", "unknown"), "A restart of the kubelet would refuse 1, move 1 and keep 1 of its 4 "
     "Guaranteed pods; the present nodes of 1 are not known."),
    (("unknown",), "A restart of the kubelet would have an unknown effect on its 1 Guaranteed pod, whose present nodes "
     "are not known."),
])  # fmt: skip
def test_the_answer_is_a_sentence_about_all_pods(fates: tuple[Fate, ...], says: str) -> None:
    out = io.StringIO()
    pods = tuple(structs.replace(GONE, fate=fate) for fate in fates)
    print_forecast(Forecast(False, "yes", None, (), pods), Console(file=out, width=120))
    assert out.getvalue().splitlines()[0] == says
