"""`numaudit config`: the settings in force, and every mistake in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from numaudit.cli.main import call
from numaudit.config.settings import KEYS

Captured = pytest.CaptureFixture[str]


def test_config_show_says_where_each_value_came_from(monkeypatch: pytest.MonkeyPatch, capfd: Captured) -> None:
    monkeypatch.setenv("NUMAUDIT_LOG_FORMAT", "json")
    assert call(["config", "show", "--set", "interval=30s", "--set", "otlp.headers=token=abc", "-o", "json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert (shown["apiVersion"], shown["kind"]) == ("numaudit/v1", "Config")
    rows = {row["key"]: (row["value"], row["origin"]) for row in shown["settings"]}
    assert rows["interval"] == ("30s", "flag --set")
    assert rows["log.format"] == ("json", "environment NUMAUDIT_LOG_FORMAT")
    assert rows["listen"] == ("127.0.0.1:9746", "default")
    assert rows["otlp.headers"] == ("(hidden)", "flag --set")


@pytest.mark.parametrize("output", ["table", "json"])
def test_config_show_hides_user_and_password_of_a_url(output: str, capfd: Captured) -> None:
    assert call(["config", "show", "--set", "otlp.endpoint=http://user:secret@collector:4318", "-o", output]) == 0
    shown = capfd.readouterr().out
    assert "http://(hidden)@collector:4318" in shown
    assert "secret" not in shown


def test_config_show_is_a_table_of_all_settings(capfd: Captured) -> None:
    assert call(["config", "show"]) == 0
    header, *rows = capfd.readouterr().out.splitlines()
    assert header.split() == ["SETTING", "VALUE", "FROM"]
    assert [row.split()[0] for row in rows] == list(KEYS)
    assert ["otlp.endpoint", "unset", "default"] in [row.split() for row in rows]


def test_a_wrong_setting_is_a_usage_error(capfd: Captured) -> None:
    assert call(["config", "show", "--set", "interval"]) == 2
    assert "needs KEY=VALUE" in capfd.readouterr().err


def test_config_check_lists_every_problem_and_ends_with_2(capfd: Captured, tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("interval: fast\nintervall: 5s\n")
    assert call(["config", "check", "--config", str(path)]) == 2
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith(f"numaudit: {path}:1: interval must be a duration")
    assert second == f"numaudit: {path}:2: there is no setting intervall; did you mean interval?"


def test_config_check_reads_the_web_config_file_too(capfd: Captured, tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text("rate_limit: {}\n")
    assert call(["config", "check", "--set", f"web.config_file={path}"]) == 2
    assert "the file has rate_limit, which numaudit does not support" in capfd.readouterr().err
    path.write_text("")
    assert call(["config", "check", "--set", f"web.config_file={path}"]) == 0


def test_a_variable_that_does_not_exist_is_warned_of_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capfd: Captured
) -> None:
    for name in ("NUMAUDIT_GUEST", "NUMAUDIT_REQUIRE_GUEST", "NUMAUDIT_RESULTS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NUMAUDIT_INTERVALL", "NUMAUDIT_XYZZY", "NUMAUDIT_DEBUG", "NUMAUDIT_LISTEN"):
        monkeypatch.setenv(name, "127.0.0.1:1")
    for name in ("NUMAUDIT_SERVICE_HOST", "NUMAUDIT_SERVICE_PORT", "NUMAUDIT_PORT", "NUMAUDIT_PORT_9746_TCP_ADDR"):
        monkeypatch.setenv(name, "10.0.0.1")  # as Kubernetes does where a Service is called numaudit
    assert call(["config", "show"]) == 0
    first, second = capfd.readouterr().err.splitlines()
    assert first == (
        "numaudit: there is no variable NUMAUDIT_INTERVALL; did you mean NUMAUDIT_INTERVAL?; it is ignored"
    )
    assert second == "numaudit: there is no variable NUMAUDIT_XYZZY; it is ignored"


def test_a_check_says_which_settings_were_checked_and_refuses_to_check_nothing(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("interval: 30s\n")
    monkeypatch.setenv("NUMAUDIT_LOG_FORMAT", "json")
    assert call(["config", "check", "--config", str(path), "--set", "listen=127.0.0.1:9000"]) == 0
    said = f"the settings are valid: {path}, 1 from the environment, 1 from flags\n"
    assert capsys.readouterr().out == said
    assert call(["config", "check"]) == 0
    assert capsys.readouterr().out == "the settings are valid: 1 from the environment\n"
    monkeypatch.delenv("NUMAUDIT_LOG_FORMAT")
    assert call(["config", "check"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "nothing to check: all settings have their defaults, because there is no --config FILE" in err
    monkeypatch.setenv("NUMAUDIT_CONFIG", str(path))
    assert call(["config", "check"]) == 0
    assert capsys.readouterr().out == f"the settings are valid: {path}\n"
