"""deploy/systemd/numaudit.service: systemd understands it, and it shuts off what the agent does not need."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.manifests import DEPLOY

UNIT = DEPLOY / "systemd/numaudit.service"
MOST_EXPOSED = 3.0
"""2.6 by systemd 252, of 10; 9.6 for a unit without any of it."""
MEASURES_BY = ("ProtectProc", "ProcSubset", "PrivateUsers", "PrivateNetwork", "DynamicUser", "User", "PrivatePIDs")
"""Each of these would hide processes, or files of root's, or the agent's port."""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/numaudit/bin/numaudit", "/bin/true"))
    return copy


def _exposure(unit: Path) -> float:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (level,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    return float(level)


def _settings() -> Iterator[tuple[str, str]]:
    for line in UNIT.read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            yield key, value


def test_systemd_understands_the_unit(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_does_not_understand_a_unit_with_a_key_that_does_not_exist(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("ProtectHome=", "ProtectHouse="))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert "ProtectHouse" in done.stderr


def test_the_unit_is_hardly_exposed(unit: Path) -> None:
    assert _exposure(unit) <= MOST_EXPOSED


def test_a_unit_without_protection_would_be(unit: Path) -> None:
    kept = [line for line in unit.read_text().splitlines() if re.match(r"\[|Exec|Type|$", line)]
    unit.write_text("\n".join(kept))
    assert _exposure(unit) > 9


def test_the_unit_hides_nothing_that_is_measured() -> None:
    assert {key for key, _ in _settings()} & set(MEASURES_BY) == set()


def test_the_unit_has_the_rights_that_the_page_names() -> None:
    settings = dict(_settings())
    assert settings["CapabilityBoundingSet"] == "CAP_BPF CAP_PERFMON CAP_SYS_PTRACE"
    page = (DEPLOY.parent / "docs/install.md").read_text(encoding="utf-8")
    assert "BPF, PERFMON and SYS_PTRACE" in page


def test_the_unit_is_watched_and_reloads_by_the_signal_that_the_agent_knows() -> None:
    settings = dict(_settings())
    assert settings["Type"] == "notify"
    assert int(settings["WatchdogSec"]) >= 60
    assert settings["ExecReload"] == "kill -HUP $MAINPID"
