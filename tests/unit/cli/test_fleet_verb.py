"""`numaudit fleet`: what is typed wrong, and what a server that is no Prometheus makes of it."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from documentation.schemas import validate
from kubelets.http import replies, serving
from made_up.reports import NOW
from made_up.scenarios import machine, play, pod, scenario
from monitoring.fleet_nodes import Answered, page, recorded, samples, vector
from numaudit.cli.main import call
from numaudit.fleet import queries
from numaudit.fleet.answers import Sample
from numaudit.fleet.scope import Scope

Capture = pytest.CaptureFixture[str]
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(pod("db", "3Gi")))
    return str(file)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing option '--prometheus'"),
        (("--prometheus", "prometheus"), "is not the URL of a server: it does not begin with http://"),
        (("--prometheus", NOWHERE, "--count", "3"), "give it with --fits pod.yaml"),
        (("--prometheus", NOWHERE, "--fail-on-reject"), "give it with --fits pod.yaml"),
        (("--prometheus", NOWHERE, "--top", "0"), "--top"),
        (("--prometheus", NOWHERE, "--timeout", "nan"), "'nan' is not between 0.1 s and 1 hour"),
        (("--prometheus", NOWHERE, "--timeout", "5 minutes"), "is not a time such as 500ms, 10s or 1m"),
        (("--prometheus", NOWHERE, "--max-age", "2d"), "is not a time such as 500ms, 10s or 1m"),
        (("--prometheus", NOWHERE, "--fail-on", "spiled"), "there is no verdict 'spiled'; did you mean spilled?"),
        (("--prometheus", NOWHERE, "--selector", "cluster=x"), "is not a list of label matchers"),
        (("--prometheus", NOWHERE, "--node-label", "a b"), "is not a label name"),
        (("--prometheus", NOWHERE, "--http.config.file", "/absent.yaml"), "does not exist"),
        (("--prometheus", NOWHERE, "--fits", "/absent.yaml"), "does not exist"),
    ],
)
def test_what_is_typed_wrong_is_a_usage_error(capsys: Capture, arguments: tuple[str, ...], said: str) -> None:
    assert call(["fleet", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_containers_and_a_pod_are_different_questions(capsys: Capture, manifest: str) -> None:
    for arguments in (("--fail-on", "spilled"), ("-n", "prod")):
        assert call(["fleet", "--prometheus", NOWHERE, "--fits", manifest, *arguments]) == 2
        assert "leave them out with --fits" in capsys.readouterr().err


def test_a_pod_that_is_none_is_named_before_anything_is_asked(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text("kind: Deployment\n")
    assert call(["fleet", "--prometheus", NOWHERE, "--fits", str(tmp_path / "deployment.yaml")]) == 2
    assert "deployment.yaml" in capsys.readouterr().err
    (tmp_path / "two.yaml").write_text(
        "\n---\n".join(f"{{metadata: {{name: {one}}}, spec: {{containers: [{{name: c}}]}}}}" for one in "ab")
    )
    assert call(["fleet", "--prometheus", NOWHERE, "--fits", str(tmp_path / "two.yaml")]) == 2
    assert "--fits takes one pod or workload, and the file has 2: default/a, default/b" in capsys.readouterr().err


def test_a_workload_is_asked_for_with_its_replicas(capsys: Capture, manifest: str, tmp_path: Path) -> None:
    pod = yaml.safe_load(Path(manifest).read_text())
    spec = {"replicas": 3, "template": {"spec": pod["spec"]}}
    (tmp_path / "web.yaml").write_text(json.dumps({"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}))
    with serving(Nodes()) as url:
        asked = ["fleet", "--prometheus", url, "--fits", str(tmp_path / "web.yaml"), "-o", "json"]
        assert call(asked) == 0
        found = json.loads(capsys.readouterr().out)
        assert call([*asked, "--count", "2"]) == 0
        fewer = json.loads(capsys.readouterr().out)
    assert (found["pod"], found["count"], fewer["count"]) == ("default/web", 3, 2)


def test_a_server_that_cannot_answer_is_exit_code_3(capsys: Capture) -> None:
    with serving(replies(b"<html>Sign in</html>")) as url:
        assert call(["fleet", "--prometheus", url]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"numaudit: {url}: the answer is not that of Prometheus' HTTP API but a web page")


def test_a_namespace_that_nobody_has_is_refused(fixtures: Path, capsys: Capture) -> None:
    known = recorded(fixtures / "fleet/prometheus.json", Scope(), 10)
    with serving(Answered(known)) as url:
        assert call(["fleet", "--prometheus", url]) == 0
        capsys.readouterr()
        assert call(["fleet", "--prometheus", url, "-n", "nope"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no container is in namespace 'nope' on the nodes that report" in err
    with serving(Answered(known, "a store is away")) as url:
        assert call(["fleet", "--prometheus", url, "-n", "nope"]) == 3
    assert "but not all are known: the server warns: a store is away" in capsys.readouterr().err


class Nodes:
    """A server that knows two nodes' memory maps and warns of each answer."""

    def __init__(self) -> None:
        full = scenario(machine("8Gi", "8Gi"), [{"admit": pod("a", "6Gi")}, {"admit": pod("b", "7Gi")}])
        hostile = "full\x1b[2J"
        scraped = [*_scraped(scenario(machine("8Gi", "8Gi"), []), "empty"), *_scraped(full, hostile)]
        scope, names = Scope(), [f"numaudit_{name}" for name in queries.MAP.split("|")]
        self._answers = {
            queries.agents(scope): [one for one in scraped if one.label("__name__") == "numaudit_build_info"],
            queries.memory_maps(scope): [one for one in scraped if one.label("__name__") in names],
        }

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        (query,) = parse_qs(request.rfile.read(int(request.headers["Content-Length"])).decode())["query"]
        if query == "time()":
            body = vector([{"metric": {}, "value": [NOW, str(NOW)]}])
        else:
            rows = [{"metric": one.labels, "value": one.stamped} for one in self._answers.get(query, ())]
            body = vector(rows, warnings=["store s3\x1b is not available"])
        replies(body)(request)


def _scraped(given: dict[str, Any], node: str) -> tuple[Sample, ...]:
    played = play(given)
    return samples(page(played.scenario.setup, played.state.memory.state.machine), node)


def test_a_forecast_is_a_document_and_a_table_that_no_name_can_harm(capsys: Capture, manifest: str) -> None:
    with serving(Nodes()) as url:
        asked = ["fleet", "--prometheus", url, "--fits", manifest]
        assert call([*asked, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert call([*asked, "--fail-on-reject"]) == 0
        text = capsys.readouterr().out
        assert call([*asked, "--fail-on-reject", "--count", "5"]) == 1
    validate(found, "FleetForecast")
    assert [(one["state"], one["fits"]) for one in found["nodes"]] == [("fits", 4), ("near", 0)]
    assert found["notices"] == ["the server warns: store s3\x1b is not available"]
    lines = text.splitlines()
    assert lines[0].startswith("default/db would be admitted 4 times, on 1 node, by NUMA rules only; refused on")
    assert "full\\x1b[2J: Requesting 1Gi of memory instead of 3Gi in container app would let it in." in lines
    assert all(line.isprintable() for line in lines)
