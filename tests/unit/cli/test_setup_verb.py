"""`numaudit setup` as a script calls it: exit codes, what is left out, what is accepted, and its document."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hosts.tree_copies import lent
from numaudit.cli.main import call
from numaudit.evaluation.setup import RULES
from screens.pages import TOP

Capture = pytest.CaptureFixture[str]
MatchesGolden = Callable[[str, str], None]
WARNINGS = "reserved-uncovered,fractional-cpu"
INFOS = "eviction-blind,reboot-drift,hugepages-uneven"


def setup(fixtures: Path, *words: str, host: str = "kubernetes-cluster") -> int:
    """Of a node with two warnings and three infos."""
    return call(["setup", "--root", str(fixtures / host), *words])


def document(fixtures: Path, capsys: Capture, *words: str) -> dict[str, Any]:
    setup(fixtures, "-o", "json", *words)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def states(found: dict[str, Any]) -> dict[str, str]:
    return {rule["id"]: rule["state"] for rule in found["rules"]}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 0),
        (("--fail-on", "error"), 0),
        (("--fail-on", "warning"), 1),
        (("--fail-on", "info"), 1),
        (("--fail-on", "never"), 0),
        (("--fail-on", "warning", "--skip", WARNINGS), 0),
        (("--fail-on", "info", "--skip", WARNINGS), 1),
        (("--fail-on", "info", "--skip", f"{WARNINGS},{INFOS}"), 0),
        (("--fail-on", "critical"), 2),
        (("--skip", "eviction-blnd"), 2),
    ],
)
def test_the_exit_code_is_by_the_worst_rule_that_is_not_left_out(
    fixtures: Path, words: tuple[str, ...], code: int, capsys: Capture
) -> None:
    assert setup(fixtures, *words) == code
    assert bool(capsys.readouterr().err) == (code == 2)


@pytest.mark.parametrize(("severity", "code"), [("error", 1), ("warning", 1), ("info", 1), ("never", 0)])
def test_an_error_fails_at_each_severity_but_never(fixtures: Path, severity: str, code: int) -> None:
    with lent(fixtures / "kubernetes-cluster") as root:
        config = root / "numaudit/configz.json"
        answer = json.loads(config.read_text())
        del answer["kubeletconfig"]["reservedMemory"][1]
        config.write_text(json.dumps(answer))
        assert call(["setup", "--root", str(root), "--fail-on", severity]) == code


def test_a_rule_that_is_left_out_is_in_no_output(fixtures: Path, capsys: Capture) -> None:
    left = {rule.id for rule in RULES} - {"fractional-cpu"}
    assert set(states(document(fixtures, capsys, "--skip", "fractional-cpu"))) == left
    setup(fixtures, "--all", "--skip", "fractional-cpu")
    assert "fractional-cpu" not in capsys.readouterr().out


def test_all_lists_every_rule_and_else_only_what_does_not_hold(fixtures: Path, capsys: Capture) -> None:
    found = states(document(fixtures, capsys))
    setup(fixtures)
    shown = {word for line in capsys.readouterr().out.splitlines() for word in line.split()[1:2]}
    setup(fixtures, "--all")
    everything = capsys.readouterr().out
    assert shown & set(found) == {id_ for id_, state in found.items() if state not in ("pass", "not-judged")}
    assert all(f" {id_}" in everything for id_ in found)
    setup(fixtures, "-o", "html")
    assert all(f">{id_}</a>" in page for page in [capsys.readouterr().out] for id_ in found)


def test_the_document_is_valid_by_the_schema(fixtures: Path, capsys: Capture) -> None:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 (a second, and nothing else here needs it)

    validator = Draft202012Validator(json.loads((TOP / "docs/schema.json").read_text()))
    found = document(fixtures, capsys)
    validator.validate(found)
    found["rules"][0]["state"] = "bad"
    assert not validator.is_valid(found)


def test_what_the_settings_accept_is_shown_with_its_reason_and_does_not_fail(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file = tmp_path / "numaudit.yaml"
    file.write_text("setup: {accepted: {fractional-cpu: small by design, reserved-uncovered: build jobs}}\n")
    monkeypatch.setenv("NUMAUDIT_CONFIG", str(file))
    assert setup(fixtures, "--fail-on", "warning") == 0
    out = capsys.readouterr().out
    assert "accepted: small by design" in out and "28 of 53 rules hold, 2 accepted" in out
    found = {rule["id"]: rule for rule in document(fixtures, capsys)["rules"]}
    assert (found["reserved-uncovered"]["state"], found["reserved-uncovered"]["accepted"]) == ("accepted", "build jobs")


def test_an_accepted_rule_that_does_not_exist_is_refused_by_the_name_of_the_setting(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file = tmp_path / "numaudit.yaml"
    file.write_text("setup: {accepted: {fractional-cpus: small by design}}\n")
    monkeypatch.setenv("NUMAUDIT_CONFIG", str(file))
    assert setup(fixtures) == 2
    said = capsys.readouterr().err
    assert f"{file}:1: setup.accepted must be" in said
    assert "there is no rule 'fractional-cpus'; did you mean fractional-cpu" in said


def test_the_settings_for_a_captured_node_are_known(
    fixtures: Path, capsys: Capture, matches_golden: MatchesGolden
) -> None:
    assert setup(fixtures, "--kubelet-config") == 0
    matches_golden("tests/golden/kubernetes-cluster.kubelet-config.yaml", capsys.readouterr().out)


def test_settings_cover_the_nodes_that_nothing_covered_and_fit_the_wish(fixtures: Path, capsys: Capture) -> None:
    assert setup(fixtures, "--kubelet-config", "--want", "pod-scope", "--reserve", "even") == 0
    found = yaml.safe_load(capsys.readouterr().out)
    assert [one["limits"]["memory"] for one in found["reservedMemory"]] == ["192Mi"] * 4
    assert found["topologyManagerScope"] == "pod"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kubelet-config", "-o", "json"), "--kubelet-config prints YAML"),
        (("--kubelet-config", "-o", "html"), "--kubelet-config prints YAML"),
        (("--kubelet-config", "--all"), "--kubelet-config prints YAML"),
        (("--kubelet-config", "--skip", "topology-none"), "--kubelet-config prints YAML"),
        (("--want", "restricted"), "--want and --reserve are for --kubelet-config: add it"),
        (("--reserve", "even"), "--want and --reserve are for --kubelet-config: add it"),
        (("--kubelet-config", "--want", "best-effort"), "is not one of"),
    ],
)
def test_settings_are_yaml_and_nothing_else(fixtures: Path, words: tuple[str, ...], said: str, capsys: Capture) -> None:
    assert setup(fixtures, *words) == 2
    assert said in capsys.readouterr().err


def test_a_machine_without_readable_memory_gets_no_settings(fixtures: Path, capsys: Capture) -> None:
    with lent(fixtures / "kubernetes-cluster") as root:
        for file in root.rglob("memory.numa_stat"):
            file.unlink()
        assert call(["setup", "--root", str(root), "--kubelet-config"]) == 3
    answer = capsys.readouterr()
    assert answer.out == ""
    assert "what the system needs of each node was not measured" in answer.err
