"""The runner itself: what it makes of results, and how it reports a dead guest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kernels
import results
from conftest import FindKernel
from guest import Guest, GuestDied, Job, run


@pytest.mark.parametrize("name", ["CI", "NUMAUDIT_REQUIRE_GUEST"])
def test_a_missing_kernel_is_a_failure_where_a_guest_is_required(
    name: str, guest_kernel: FindKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CACHE", tmp_path)
    monkeypatch.setattr("guest.require_tools", lambda kernel: None)
    monkeypatch.setenv(name, "1")
    with pytest.raises(pytest.fail.Exception, match=r"no 6\.1 kernel"):
        guest_kernel("6.1")


def _lines(*steps: tuple[str, str, str]) -> list[str]:
    return [
        json.dumps({"id": test, "when": when, "outcome": outcome, "seconds": 0.5, "text": f"{when} {outcome}"})
        for test, when, outcome in steps
    ]


def test_a_test_passes_when_each_of_its_steps_did() -> None:
    lines = _lines(("a", "start", ""), ("a", "setup", "passed"), ("a", "call", "passed"), ("a", "teardown", "passed"))
    assert results.parse(lines)["a"].outcome == "passed"
    assert results.parse(lines)["a"].seconds == 2.0


@pytest.mark.parametrize("step", ["setup", "call", "teardown"])
def test_a_test_fails_when_any_of_its_steps_did(step: str) -> None:
    lines = _lines(*(("a", when, "failed" if when == step else "passed") for when in ("setup", "call", "teardown")))
    assert results.parse(lines)["a"].outcome == "failed"
    assert f"{step} failed" in results.parse(lines)["a"].text


def test_a_skip_keeps_its_reason() -> None:
    skipped = results.parse(_lines(("a", "setup", "skipped"), ("a", "teardown", "passed")))["a"]
    assert skipped.outcome == "skipped"
    assert "setup skipped" in skipped.text


def test_a_test_the_guest_did_not_survive_is_unfinished() -> None:
    ends = results.parse(_lines(("a", "teardown", "passed"), ("b", "start", ""), ("b", "setup", "passed")))
    assert {test: result.outcome for test, result in ends.items()} == {"a": "passed", "b": "unfinished"}


@pytest.mark.vm
def test_a_panic_is_reported_with_the_end_of_the_console(guest_kernel: FindKernel, tmp_path: Path) -> None:
    guest = Guest(guest_kernel("6.12"))
    with pytest.raises(GuestDied, match="sysrq triggered crash"):
        run(guest, Job(["/bin/sh", "-c", "echo before; echo c >/proc/sysrq-trigger"], tmp_path))
    assert (tmp_path / "stdout").read_text() == "before\n"


@pytest.mark.vm
def test_a_guest_that_does_not_end_is_killed(guest_kernel: FindKernel, tmp_path: Path) -> None:
    guest = Guest(guest_kernel("6.12"))
    with pytest.raises(GuestDied, match="did not end in 1 s"):
        run(guest, Job(["sleep", "1000"], tmp_path, timeout=1))


@pytest.mark.vm
def test_a_command_has_its_own_machine_environment_and_exit_status(guest_kernel: FindKernel, tmp_path: Path) -> None:
    script = 'nproc; ls -d /sys/devices/system/node/node*; cat /proc/cmdline; echo "$WHO" >&2; echo x >shared; exit 7'
    guest = Guest(guest_kernel("6.1"), nodes=2, cpus=2, node_memory=256 << 20, command_line="numa_balancing=disable")
    job = Job(["/bin/sh", "-c", script.replace(">shared", f">{tmp_path}/shared")], tmp_path, {"WHO": "it's me"})
    done = run(guest, job)
    assert done.exit_code == 7
    assert done.stderr == "it's me\n"
    lines = done.stdout.splitlines()
    assert lines[:3] == ["2", "/sys/devices/system/node/node0", "/sys/devices/system/node/node1"]
    assert lines[3].endswith("numa_balancing=disable")
    assert (tmp_path / "shared").read_text() == "x\n"
