"""Whose values a document has and of when, and a host whose root is mounted in a container (`kubectl debug node/N`)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hosts.tree_copies import lent
from numaudit import __version__
from numaudit.capture import tree
from numaudit.cli.main import call
from numaudit.encoding.value import Origin, Timestamp
from numaudit.kernel import host as host_module
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.origin import NOTE, origin_of
from numaudit.kubelet.sources.log_follow import JournalLog, live_log

NOTED = {"host": "worker-3", "takenAt": "2025-01-02T03:04:05.678Z"}


@pytest.fixture
def captured(fixtures: Path) -> Iterator[Path]:
    """A captured host that says whose it is."""
    with lent(fixtures / "misaligned-node") as host:
        (host / NOTE).write_text(json.dumps(NOTED))
        yield host


def _document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    call([str(one) for one in arguments])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


VERBS = (("report",), ("doctor",), ("topology",), ("explain", "default/*"), ("headroom",), ("state", "verify"))


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_document_about_a_capture_has_the_captures_host_and_time(
    capsys: pytest.CaptureFixture[str], captured: Path, verb: tuple[str, ...]
) -> None:
    found = _document(capsys, *verb, "--root", captured, "-o", "json")
    assert {key: found[key] for key in NOTED} == NOTED
    assert found["generator"] == {"name": "numaudit", "version": __version__}


def test_a_capture_says_whose_it_is_and_a_copy_of_it_says_the_same(tmp_path: Path, captured: Path) -> None:
    tree.capture(Host.under(captured), tmp_path / "copy")
    note = json.loads((tmp_path / "copy" / NOTE).read_text())
    assert (note["apiVersion"], note["kind"]) == ("numaudit/v1", "Capture")
    assert note["generator"] == {"name": "numaudit", "version": __version__}
    assert {key: note[key] for key in NOTED} == NOTED


def test_a_capture_by_an_older_version_says_neither(capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    found = _document(capsys, "report", "--root", fixtures / "misaligned-node", "-o", "json")
    assert (found["host"], found["takenAt"]) == (None, None)


def test_the_live_host_is_called_as_kubernetes_calls_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "worker-7")
    assert origin_of(Host(), 12.5) == Origin("worker-7", Timestamp(12.5))


def test_a_redacted_report_of_a_capture_hides_its_host_in_texts_too(
    capsys: pytest.CaptureFixture[str], captured: Path
) -> None:
    for file in ("pods.json", "kubelet.log"):
        text = (captured / "numaudit" / file).read_text()
        (captured / "numaudit" / file).write_text(text.replace("with Topology locality", "on worker-3 of kubelet"))
    for output in ("json", "table", "html"):
        assert call(["report", "--root", str(captured), "-o", output]) == 0
        assert "on worker-3 of" in capsys.readouterr().out
        assert call(["report", "--root", str(captured), "--redact", "-o", output]) == 0
        assert "worker-3" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["(none)", ""])
def test_a_host_without_a_name_has_none(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(nodename=name))
    assert origin_of(Host(), 12.5) == Origin(None, Timestamp(12.5))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (2 * 86400 + 5, "2 days ago"),
        (0, "just now"),
        (-30, "just now"),
        (-7200, r"which is later than this host's clock \(\d+-\d+-\d+ .* UTC\)"),
    ],
)
def test_the_age_of_a_capture_is_right_for_clocks_that_differ(
    capsys: pytest.CaptureFixture[str], captured: Path, seconds: float, said: str
) -> None:
    note = json.loads((captured / NOTE).read_text())
    (captured / NOTE).write_text(json.dumps(note | {"takenAt": str(Timestamp(time.time() - seconds))}))
    assert call(["topology", "--root", str(captured)]) == 0
    assert re.search(rf"captured \S+ \S+ UTC, {said}; numaudit", capsys.readouterr().out)


@pytest.mark.parametrize(
    "damaged", ["", "[]", '{"takenAt": "yesterday"}', '{"takenAt": "2025-01-02T03:04:05"}', '{"host": 1}']
)
def test_a_damaged_note_is_named_with_what_to_do(
    capsys: pytest.CaptureFixture[str], captured: Path, damaged: str
) -> None:
    (captured / NOTE).write_text(damaged)
    assert call(["topology", "--root", str(captured), "-o", "json"]) == 2
    error = capsys.readouterr().err
    assert f"{NOTE} is damaged: " in error and "capture again, or remove it" in error


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (1.9996, "1970-01-01T00:00:02.000Z"), (1e9 + 0.25, "2001-09-09T01:46:40.250Z")],
)
def test_a_time_is_shown_to_the_millisecond_and_read_again(seconds: float, text: str) -> None:
    assert str(Timestamp(seconds)) == text
    assert Timestamp.parse(text) == round(seconds, 3)


def test_a_table_about_a_capture_ends_with_whose_it_is_and_how_old(
    capsys: pytest.CaptureFixture[str], captured: Path
) -> None:
    for verb in (("report",), ("doctor",), ("topology",), ("headroom",), ("forecast",), ("explain", "default/*")):
        call([*verb, "--root", str(captured)])
        last = capsys.readouterr().out.splitlines()[-1]
        assert re.fullmatch(
            r"worker-3; Linux 6\.12\.117\S*; captured 2025-01-02 03:04:05 UTC, \d+ days ago; numaudit \d\S+", last
        )


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with a procfs, cgroups and a journal, as a container sees it."""
    monkeypatch.setattr(host_module, "_is_procfs", lambda folder: folder == tmp_path / "proc")
    for name in ("proc", "sys/fs/cgroup/kubepods", "var/log/journal", "etc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset memory hugetlb\n")
    (tmp_path / "etc/hostname").write_text("worker-7\n")
    own = "cgroup2 /sys/fs/cgroup cgroup2 ro 0 0"
    hosts = f"cgroup2 {tmp_path}/sys/fs/cgroup cgroup2 rw 0 0"
    (tmp_path / "proc/mounts").write_text(f"{own}\n{hosts}\n")
    return tmp_path


def test_a_root_with_a_procfs_is_the_running_host_and_what_looks_like_one_is_not(tmp_path: Path) -> None:
    """A tree that somebody hands over must not have the reader's kubelet asked."""
    assert host_module._is_procfs(Path("/proc"))
    (tmp_path / "proc/1234").mkdir(parents=True)
    (tmp_path / "proc/1234/stat").write_text("1234 (numaudit)")
    (tmp_path / "proc/self").symlink_to("1234")
    assert not Host.under(tmp_path).is_live
    (tmp_path / "sys").mkdir()
    (tmp_path / "proc").rename(tmp_path / "away")
    (tmp_path / "proc").symlink_to("/proc")
    assert not Host.under(tmp_path).is_live


def test_a_mounted_procfs_makes_a_root_the_running_host(mounted: Path) -> None:
    assert Host.under(mounted).is_live


def test_a_host_that_is_mounted_at_the_usual_place_is_found(mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "MOUNTED", mounted)
    assert Host.here() == Host(mounted, is_mounted=True)
    (mounted / "sys/fs/cgroup").rename(mounted / "away")
    assert Host.here() == Host()


def test_the_groups_of_the_mounted_host_are_read_and_not_those_of_the_container(mounted: Path) -> None:
    found = find_hierarchies(Host.under(mounted))
    assert (found.mode, found.memory, found.is_whole) == ("v2", mounted / "sys/fs/cgroup", True)


def test_name_and_journal_are_those_of_the_mounted_host(mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("K8S_NODE_NAME", "NODE_NAME"):
        monkeypatch.delenv(name, raising=False)
    host = Host.under(mounted)
    assert origin_of(host).host == "worker-7"
    log = live_log(host)
    assert isinstance(log, JournalLog) and log.folder == mounted / "var/log/journal"
    own = live_log(Host())
    assert isinstance(own, JournalLog) and own.folder is None
