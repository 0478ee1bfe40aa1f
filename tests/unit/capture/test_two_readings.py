"""A capture of two readings: rates, and CPU time by node, of what grew between them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hosts.moving_node import APART, CGROUP, CONTAINER, PID, STARTED, UPTIME, begin, later, stat
from numaudit.capture import collector, remote
from numaudit.capture.tree import capture
from numaudit.cli.main import call
from numaudit.kernel import earlier
from numaudit.kernel.host import Host

Capture = pytest.CaptureFixture[str]
BORN = 438
"""A thread that begins between the readings."""


@pytest.fixture
def node(fixtures: Path, tmp_path: Path) -> Path:
    """A node whose process may run on CPUs 0 to 7, two of each of its four nodes, and runs on node 3."""
    root = shutil.copytree(fixtures / "misaligned-node", tmp_path / "node")
    begin(root, cpu=6)
    status = root / f"proc/{PID}/status"
    status.write_text(status.read_text().replace("Cpus_allowed_list:\t2", "Cpus_allowed_list:\t0-7"))
    return root


def captured(root: Path, then: Callable[[Path], None] = later) -> Path:
    target = root.parent / "capture.tar.xz"
    capture(Host.under(root), target, lambda: then(root))
    return target


def document(capsys: Capture, root: Path, *words: str, verb: str = "report") -> dict[str, Any]:
    assert call([verb, *words, "--root", str(root), "-o", "json"]) in (0, 1)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def container(found: dict[str, Any]) -> dict[str, Any]:
    """The one that the process is in."""
    (one,) = (one for one in found["containers"] if CGROUP in (one["path"] or ""))
    assert isinstance(one, dict)
    return one


def names(found: dict[str, Any]) -> list[str | None]:
    """Of the verdicts."""
    return [one["verdict"] and one["verdict"]["name"] for one in found["containers"]]


def test_cpu_time_by_node_is_that_between_the_readings_and_is_called_an_estimate(node: Path, capsys: Capture) -> None:
    one = container(document(capsys, captured(node)))
    assert one["cpuSeconds"] == [{"numaNode": 3, "seconds": 4.0}]
    assert one["cpuTimeSource"] == "last-cpu"
    assert one["expectedRemoteRatio"] == 1.0  # all of its memory is on node 0


def test_a_reason_does_not_deny_the_time_between_the_readings(node: Path, capsys: Capture) -> None:
    reason = container(document(capsys, captured(node)))["verdict"]["reason"]
    assert reason.startswith("100% of the allowed CPUs are on nodes other than 0: it may use CPU 2,")


def test_time_of_threads_that_may_use_one_node_alone_is_no_estimate(node: Path, capsys: Capture) -> None:
    status = node / f"proc/{PID}/status"
    status.write_text(status.read_text().replace("Cpus_allowed_list:\t0-7", "Cpus_allowed_list:\t2-3"))
    one = container(document(capsys, captured(node)))
    assert (one["cpuSeconds"], one["cpuTimeSource"]) == ([{"numaNode": 1, "seconds": 4.0}], "affinity")


def test_rates_are_by_the_time_that_passed(node: Path, capsys: Capture) -> None:
    rates = document(capsys, captured(node))["rates"]
    assert rates["seconds"] == APART
    assert rates["numaBalancing"]["numa_hint_faults"] == 400.0
    assert rates["numaBalancing"]["pgmigrate_fail"] == 0.0
    assert rates["numastatBytesPerSecond"]["1"]["numa_miss"] == 30 * 4096 / APART
    assert rates["numastatBytesPerSecond"]["0"]["numa_miss"] == 0.0


def test_no_verdict_is_made_of_sampled_time(node: Path, capsys: Capture) -> None:
    root = captured(node)
    twice = document(capsys, root)
    shutil.unpack_archive(root, node.parent / "once")
    shutil.rmtree(node.parent / f"once/capture/{earlier.FOLDER}")
    once = document(capsys, node.parent / "once")
    assert container(once)["cpuSeconds"] is None
    assert once["rates"] is None
    assert names(twice) == names(once)
    assert twice["findings"] == once["findings"]


def test_a_thread_that_began_between_the_readings_has_all_of_its_time(node: Path, capsys: Capture) -> None:
    def then(root: Path) -> None:
        later(root)
        for thread, ticks, cpu, started in ((PID, 300, 7, STARTED), (BORN, 200, 0, int(UPTIME * 100))):
            folder = root / f"proc/{PID}/task/{thread}"
            folder.mkdir(parents=True)
            shutil.copy(root / f"proc/{PID}/status", folder / "status")
            (folder / "stat").write_text(stat(thread, ticks, cpu, started))

    one = container(document(capsys, captured(node, then)))
    assert one["cpuSeconds"] == [{"numaNode": 0, "seconds": 2.0}, {"numaNode": 3, "seconds": 2.0}]


@pytest.mark.parametrize(("started", "seconds"), [(UPTIME * 100, [5.0]), (UPTIME * 100 - 1, [])])
def test_a_process_that_the_first_reading_left_out_has_no_time_unless_it_is_new(
    started: float, seconds: list[float], node: Path, capsys: Capture
) -> None:
    (node / f"proc/{PID}/stat").unlink()

    def then(root: Path) -> None:
        later(root)
        (root / f"proc/{PID}/stat").write_text(stat(PID, 500, 7, int(started)))

    found = document(capsys, captured(node, then))
    assert [on["seconds"] for on in container(found)["cpuSeconds"]] == seconds
    (source,) = (one for one in found["sources"] if one["source"] == "two readings")
    assert source["state"] == ("ok" if seconds else "partial")


def test_the_table_the_page_and_the_explanation_say_so(
    node: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    root = captured(node)

    def out(*words: str) -> str:
        assert call([*words, "--root", str(root)]) == 0
        return " ".join(capsys.readouterr().out.split())

    table = out("report")
    assert "N3 ~4.0s" in table and "~100.0%" in table
    assert "400 NUMA hint faults/s (25.0% local), 50 pages/s moved by NUMA balancing; memory given in place" in table
    assert "(numa_miss): node 1 12Ki/s." in table
    assert "~ = an estimate" in table
    page = out("report", "-o", "html")
    assert "400 NUMA hint faults/s" in page and "node 3 (~100% of its CPU time)" in page
    explained = out("explain", CONTAINER, "-o", "wide")
    assert (
        "CPU time by node: N3 ~4.0s" in explained
        and "CPU TIME is that of the measurement; ~ = an estimate" in explained
    )


def test_rows_are_sorted_by_cpu_time_where_a_capture_has_it(node: Path, capsys: Capture) -> None:
    assert CGROUP in document(capsys, captured(node), "--sort", "cpu", "--top", "1")["containers"][0]["path"]
    assert call(["report", "--sort", "cpu", "--root", str(node)]) == 2
    assert "--sort cpu: this capture has one reading of its counters; capture again" in capsys.readouterr().err


def test_a_duration_is_none_or_at_most_an_hour(node: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numaudit.cli.observe.capture.host", lambda _: Host.under(node))
    waited = list[float]()
    monkeypatch.setattr("numaudit.cli.messages.wait", lambda seconds, _: waited.append(seconds))
    for number, words in enumerate(((), ("--duration", "0"), ("--duration", "1h"))):
        assert call(["capture", *words, str(node.parent / f"copy{number}")]) == 0
    assert waited == [10.0, 3600.0]
    assert [(node.parent / f"copy{number}/{earlier.FOLDER}").exists() for number in range(3)] == [True, False, True]
    assert call(["capture", "--duration", "3601s", str(node.parent / "more")]) == 2
    assert "'3601s' is not between 0 s and 1 hour" in capsys.readouterr().err


def test_a_capture_that_is_interrupted_between_its_readings_leaves_nothing(node: Path) -> None:
    def interrupt(_: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        captured(node, interrupt)
    assert sorted(one.name for one in node.parent.iterdir()) == ["node"]


def test_processes_of_a_capture_have_the_time_of_the_measurement(node: Path, capsys: Capture) -> None:
    one = container(document(capsys, captured(node), CONTAINER, "--processes"))
    assert one["processes"]["cpuTimeSince"] == "measurement"
    assert one["processes"]["items"][0]["cpuSeconds"] == {"3": 4.0}


def test_a_redacted_report_shows_no_name_of_the_first_reading(node: Path, capsys: Capture) -> None:
    assert call(["report", "--redact", "-o", "json", "--root", str(captured(node))]) in (0, 1)
    out = capsys.readouterr().out
    assert json.loads(out)["rates"]["seconds"] == APART
    assert "gu-small" not in out and "memhog" not in out


def test_what_is_counted_is_not_read_a_third_time(node: Path) -> None:
    capture(Host.under(node), node.parent / "copy", lambda: later(node))
    copy = node.parent / "copy"
    assert (copy / f"proc/{PID}/stat").read_text() == stat(PID, 500, 7)
    assert (copy / f"{earlier.FOLDER}/proc/{PID}/stat").read_text() == stat(PID, 100, 6)
    names = {str(one.relative_to(copy / earlier.FOLDER)) for one in (copy / earlier.FOLDER).rglob("*") if one.is_file()}
    assert {re.sub(r"\d+", "N", name) for name in names} == {
        "proc/N/stat", "proc/uptime", "proc/vmstat", "sys/devices/system/node/nodeN/numastat",
    }  # fmt: skip


def test_another_host_is_read_twice_by_its_own_python(
    node: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = json.loads(remote.program(3.0).decode().split("\n")[1].removeprefix("REQUEST = json.loads(")[1:-2])
    monkeypatch.setattr(collector, "REQUEST", request)
    slept = list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        later(node)

    monkeypatch.setattr("time.sleep", sleep)
    target = node.parent / "remote.tar.xz"
    with target.open("wb") as file:
        collector.main(file, str(node))
    found = document(capsys, target)
    assert slept == [3.0]
    assert container(found)["cpuSeconds"] == [{"numaNode": 3, "seconds": 4.0}]
    assert found["rates"]["numaBalancing"]["numa_hint_faults"] == 400.0


@pytest.mark.parametrize("text", ["", "now\n", "-1.0 2\n", f"{UPTIME + APART:.2f} 1\n", "9" * 30])
def test_a_first_reading_of_no_time_is_named_and_the_rest_is_reported(text: str, node: Path, capsys: Capture) -> None:
    capture(Host.under(node), node.parent / "copy", lambda: later(node))
    (node.parent / f"copy/{earlier.FOLDER}/proc/uptime").write_text(text)
    found = document(capsys, node.parent / "copy")
    assert found["rates"] is None
    (source,) = (one for one in found["sources"] if one["source"] == "two readings")
    assert source["state"] in ("failed", "unavailable") and source["reason"]


def test_a_first_reading_never_leads_out_of_the_capture(node: Path, capsys: Capture) -> None:
    capture(Host.under(node), node.parent / "copy", lambda: later(node))
    copy = node.parent / "copy"
    (node.parent / "elsewhere").mkdir()
    (copy / earlier.FOLDER).rename(node.parent / "elsewhere/earlier")
    (copy / earlier.FOLDER).symlink_to(node.parent / "elsewhere/earlier")
    assert document(capsys, copy)["rates"] is None
