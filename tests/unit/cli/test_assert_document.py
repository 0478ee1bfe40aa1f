"""`numaudit assert -o json`: what was judged, as a document."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from documentation.schemas import validate
from made_up.reports import container, report
from numaudit.cli.main import call


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = report(container())
    (of_the_pod,) = found.containers
    placed = replace(of_the_pod, judged_bytes=32 << 20, aligned_bytes=30 << 20)
    whole = SimpleNamespace(report=replace(found, containers=(placed,)))
    monkeypatch.setattr("numaudit.cli.manager.assert_work.observe_whole", lambda *_, **__: whole)


@pytest.mark.parametrize(("limit", "state", "code"), [("2Mi", "passed", 0), ("1Mi", "failed", 1)])
def test_the_document_says_what_was_demanded_and_what_was_found(
    limit: str, state: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["assert", "--max-spilled", limit, "prod/db-0/db", "-o", "json"]) == code
    found = json.loads(capsys.readouterr().out)
    validate(found, "Assertion")
    assert found["state"] == state
    assert found["checks"] == [
        {
            "container": "prod/db-0/db",
            "demand": f"at most {limit} outside the promised nodes",
            "state": state,
            "evidence": "2Mi of 32Mi are outside the promised nodes",
        }
    ]


def test_the_document_of_too_little_evidence_is_inconclusive(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["assert", "--max-remote", "5%", "prod/db-0/db", "-o", "json"]) == 5
    assert json.loads(capsys.readouterr().out)["state"] == "inconclusive"


def test_a_command_has_standard_output_for_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["assert", "--max-remote", "5%", "-o", "json", "--", "true"]) == 2
    assert "use --junit FILE" in capsys.readouterr().err
