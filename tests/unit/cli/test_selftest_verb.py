"""`numaudit selftest`: the exit code and the table of what its checks found."""

from __future__ import annotations

import pytest

from numaudit.api.selftest_document import CheckState, SelfTestCheck
from numaudit.cli.main import call


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["passed", "not tried"], 0),
        (["failed", "inconclusive", "passed"], 1),
        (["passed", "inconclusive", "not tried"], 5),
        (["inconclusive", "not tried"], 5),
        (["not tried", "not tried"], 3),
    ],
)
def test_a_failure_comes_before_what_is_inconclusive_and_that_before_a_pass(
    states: list[CheckState], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = tuple(SelfTestCheck(f"check-{number}", state, "", "") for number, state in enumerate(states))
    monkeypatch.setattr("numaudit.selftest.selftest.selftest", lambda _: checks)
    assert call(["selftest"]) == code
    out = capsys.readouterr().out
    for number, state in enumerate(states):
        assert f"check-{number}" in out and state in out
