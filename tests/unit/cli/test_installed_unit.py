"""`numaudit config` finds the settings that an installed systemd unit gives to the agent."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from documentation.schemas import validate
from numaudit.cli.main import call
from numaudit.cli.service import installed_unit
from screens.pages import TOP

Capture = pytest.CaptureFixture[str]
SHIPPED = TOP / "deploy/systemd/numaudit.service"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of units; the shipped one is installed there, with a settings file."""
    for name in os.environ:
        if name.startswith("NUMAUDIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(installed_unit, "FOLDERS", (tmp_path / "etc", tmp_path / "lib"))
    (tmp_path / "etc").mkdir()
    settings = tmp_path / "agent.yaml"
    settings.write_text("interval: 30s\n")
    text = SHIPPED.read_text()
    assert "--config /etc/numaudit/agent.yaml" in text
    (tmp_path / "etc/numaudit.service").write_text(text.replace("/etc/numaudit/agent.yaml", str(settings)))
    return tmp_path


def test_the_settings_of_the_shipped_unit_are_found_and_named(capsys: Capture, folder: Path) -> None:
    assert call(["config", "check"]) == 0
    out, err = capsys.readouterr()
    assert out == f"the settings are valid: {folder / 'agent.yaml'}\n"
    assert err == f"numaudit: these are the settings of the installed unit: {folder / 'etc/numaudit.service'}\n"
    assert call(["config", "show"]) == 0
    assert re.search(rf"(?m)^interval +30s +{re.escape(str(folder / 'agent.yaml'))}", capsys.readouterr().out)


def test_the_check_as_a_document_names_unit_files_and_mistakes(capsys: Capture, folder: Path) -> None:
    assert call(["config", "check", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    validate(found, "ConfigCheck")
    unit = [str(folder / "etc/numaudit.service")]
    assert (found["valid"], found["problems"], found["unitFiles"]) == (True, [], unit)
    assert found["checked"] == str(folder / "agent.yaml")
    (folder / "agent.yaml").write_text("intervall: 30s\n")
    assert call(["config", "check", "-o", "json"]) == 2
    found = json.loads(capsys.readouterr().out)
    validate(found, "ConfigCheck")
    assert (found["valid"], found["checked"]) == (False, None)
    assert "intervall" in found["problems"][0]


def test_a_mistake_in_the_installed_settings_is_found(capsys: Capture, folder: Path) -> None:
    (folder / "agent.yaml").write_text("intervall: 30s\n")
    assert call(["config", "check"]) == 2
    assert "intervall" in capsys.readouterr().err


def test_drop_ins_and_files_of_variables_count(capsys: Capture, folder: Path) -> None:
    (folder / "variables").write_text("# comment\nNUMAUDIT_LOG_FORMAT=json\n")
    (folder / "etc/numaudit.service.d").mkdir()
    (folder / "etc/numaudit.service.d/10.conf").write_text(
        "[Service]\nExecStart=\nExecStart=/opt/numaudit/bin/numaudit agent \\\n  --listen 127.0.0.1:9999\n"
        f'Environment="NUMAUDIT_INTERVAL=20s"\nEnvironmentFile={folder / "variables"}\nEnvironmentFile=-/absent\n'
    )
    assert call(["config", "check"]) == 0
    assert capsys.readouterr().out == "the settings are valid: 2 from the environment, 1 from flags\n"


def test_flags_come_before_the_unit_and_a_missing_unit_is_said(capsys: Capture, folder: Path) -> None:
    assert call(["config", "check", "--interval", "5s"]) == 0
    assert capsys.readouterr().err == ""
    shutil.rmtree(folder / "etc")
    assert call(["config", "check"]) == 2
    assert "no unit numaudit.service is installed" in capsys.readouterr().err


def test_a_unit_that_starts_something_else_is_refused(capsys: Capture, folder: Path) -> None:
    (folder / "etc/numaudit.service").write_text("[Service]\nExecStart=/bin/true\n")
    assert call(["config", "check"]) == 2
    assert "does not run `numaudit agent`" in capsys.readouterr().err
