"""Following the kubelet's log over rotations, truncations and floods; no line twice, what is lost is counted."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from numaudit.errors import Unavailable
from numaudit.kubelet.parsers.klog import LONGEST_LINE
from numaudit.kubelet.sources import log_follow
from numaudit.kubelet.sources.log_follow import FileLog, JournalLog, LogLine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.log"


def follow(path: Path, at_once: int = log_follow.AT_ONCE, backlog: int = log_follow.BACKLOG) -> FileLog:
    return FileLog(path, str(path), at_once, backlog)


def texts(source: FileLog) -> list[str]:
    return [line.text for line in source.read()]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_each_line_comes_once_and_a_half_line_when_it_is_whole(path: Path) -> None:
    path.write_text("one\ntwo\nthr")
    log = follow(path)
    assert texts(log) == ["one", "two"]
    assert texts(log) == []
    append(path, "ee\nfour\n")
    assert texts(log) == ["three", "four"]
    assert log.lost == 0


def test_a_rotation_by_rename_loses_nothing(path: Path) -> None:
    path.write_text("one\n")
    log = follow(path)
    assert texts(log) == ["one"]
    append(path, "two\n")
    path.rename(path.with_suffix(".1"))
    path.write_text("three\n")
    assert texts(log) == ["two", "three"]
    append(path, "four\n")
    assert texts(log) == ["four"]


def test_between_the_two_steps_of_a_rotation_the_old_file_is_read_on(path: Path) -> None:
    path.write_text("one\n")
    log = follow(path)
    texts(log)
    append(path, "two\n")
    path.rename(path.with_suffix(".1"))
    assert texts(log) == ["two"]
    path.write_text("three\n")
    assert texts(log) == ["three"]


def test_a_file_that_stays_away_is_an_error_until_there_is_a_new_one(path: Path) -> None:
    path.write_text("one\n")
    log = follow(path)
    texts(log)
    path.unlink()
    assert texts(log) == []
    for _ in range(2):
        with pytest.raises(Unavailable, match="No such file"):
            texts(log)
    path.write_text("two\n")
    assert texts(log) == ["two"]


def test_what_a_rotated_file_still_holds_is_read_whole_before_the_new_one(path: Path) -> None:
    path.write_text("one\n")
    log = follow(path, at_once=50)
    texts(log)
    rest = [f"{number:09d}" for number in range(20)]
    append(path, "".join(f"{line}\n" for line in rest))
    path.rename(path.with_suffix(".1"))
    path.write_text("new\n")
    assert texts(log) == [*rest, "new"]


def test_a_rotation_by_copy_and_truncate_starts_at_the_beginning(path: Path) -> None:
    path.write_text("one\ntwo\n")
    log = follow(path)
    texts(log)
    path.write_text("three\n")
    assert texts(log) == ["three"]


def test_a_truncated_file_that_grew_beyond_its_old_size_is_noticed(path: Path) -> None:
    path.write_text("one\ntwo\n")
    log = follow(path)
    texts(log)
    inode = path.stat().st_ino
    path.write_text("three is longer than both\nfour\n")
    assert path.stat().st_ino == inode
    assert texts(log) == ["three is longer than both", "four"]


def test_a_flood_is_taken_in_parts(path: Path) -> None:
    path.write_text("")
    log = follow(path, at_once=100)
    assert texts(log) == []
    append(path, "".join(f"{number:09d}\n" for number in range(50)))
    taken = [len(texts(log)) for _ in range(6)]
    assert taken == [10, 10, 10, 10, 10, 0]
    assert log.lost == 0


def test_a_flood_too_large_to_catch_up_with_is_passed_over_and_counted(path: Path) -> None:
    path.write_text("")
    log = follow(path, at_once=1000, backlog=200)
    texts(log)
    append(path, "".join(f"{number:09d}\n" for number in range(1000)))
    found = texts(log)
    assert found[-1] == "000000999"
    assert len(found) <= 20
    # All but the last 200 bytes; the line that the cut went through is dropped as well.
    assert log.lost == 10_000 - 200
    append(path, "after\n")
    assert texts(log) == ["after"]


def test_a_line_without_end_takes_no_memory(path: Path) -> None:
    path.write_text("one\n" + "x" * (3 * LONGEST_LINE) + "\ntwo\n")
    log = follow(path)
    found = texts(log)
    assert (found[0], found[-1]) == ("one", "two")
    assert all(len(text) <= 2 * LONGEST_LINE for text in found)
    assert log.lost > LONGEST_LINE


def test_a_log_that_is_not_there_yet_is_found_later(path: Path) -> None:
    log = follow(path)
    with pytest.raises(Unavailable, match=r"cannot read .*kubelet\.log: No such file"):
        texts(log)
    path.write_text("one\n")
    assert texts(log) == ["one"]


def test_bytes_that_are_no_utf8_do_not_stop_the_reading(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\none\n")
    assert texts(follow(path)) == ["\ufffd\ufffd", "one"]


def journal(tmp_path: Path, script: str, at_once: int = log_follow.AT_ONCE) -> JournalLog:
    """A journalctl of our own: a shell script, which is given the same arguments."""
    program = tmp_path / "journalctl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return JournalLog(units=("kubelet",), program=str(program), at_once=at_once)


def entry(cursor: str, message: object, at: str | None = "1795214302328746") -> str:
    return json.dumps({"__CURSOR": cursor, "MESSAGE": message, "__REALTIME_TIMESTAMP": at})


def test_the_journal_is_read_from_the_last_cursor_on(tmp_path: Path) -> None:
    (tmp_path / "first").write_text(entry("c1", "one") + "\n" + entry("c2", "two") + "\n")
    (tmp_path / "next").write_text(entry("c3", "three") + "\n")
    log = journal(
        tmp_path,
        f'echo "$@" >> {tmp_path}/asked\ncase "$*" in *after-cursor=c2*) cat {tmp_path}/next;; '
        f"*after-cursor*) ;; *) cat {tmp_path}/first;; esac",
    )
    assert list(log.read()) == [LogLine("one", 1795214302.328746), LogLine("two", 1795214302.328746)]
    assert list(log.read()) == [LogLine("three", 1795214302.328746)]
    assert list(log.read()) == []
    asked = (tmp_path / "asked").read_text().splitlines()
    assert "--boot" in asked[0]
    assert "--unit=kubelet" in asked[0]
    # Without it journalctl leaves out messages of more than 4 KiB.
    assert "--all" in asked[0]
    assert "--after-cursor=c3" in asked[2]


def test_a_message_that_is_no_utf8_comes_as_numbers(tmp_path: Path) -> None:
    (tmp_path / "out").write_text(entry("c", [111, 107, 255]) + "\n" + entry("d", None) + "\nnot json\n")
    log = journal(tmp_path, f"cat {tmp_path}/out")
    assert [line.text for line in log.read()] == ["ok\ufffd"]


def test_a_flooded_journal_is_read_in_parts_and_nothing_is_lost(tmp_path: Path) -> None:
    lines = [entry(f"c{number}", f"line {number}") for number in range(300)]
    (tmp_path / "all").write_text("\n".join(lines) + "\n")
    script = (
        f"c=$(echo \"$*\" | sed -n 's/.*after-cursor=c\\([0-9]*\\).*/\\1/p'); "
        f'if [ -z "$c" ]; then head -1 {tmp_path}/all; else tail -n +$((c + 2)) {tmp_path}/all; fi'
    )
    log = journal(tmp_path, script, at_once=2000)
    found: list[str] = []
    for _ in range(40):
        part = [line.text for line in log.read()]
        assert len("".join(part)) <= 2000
        found += part
    assert found == [f"line {number}" for number in range(300)]
    assert log.lost == 0


def test_a_journal_without_such_a_unit_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="the journal has no line of kubelet"):
        list(journal(tmp_path, "exit 0").read())


def test_a_journal_that_may_not_be_read_gives_its_own_words(tmp_path: Path) -> None:
    log = journal(tmp_path, "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1")
    with pytest.raises(Unavailable, match="insufficient permissions"):
        list(log.read())


def test_without_journalctl_the_journal_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot run .*: No such file"):
        list(JournalLog(program=str(tmp_path / "none")).read())


def test_a_journalctl_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follow, "_JOURNAL_SECONDS", 0.3)
    with pytest.raises(Unavailable, match=r"no answer within 0\.3 s"):
        list(journal(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60").read())
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_named_pipe_in_place_of_the_log_is_refused_at_once(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(Unavailable, match="not a regular file"):
        texts(follow(path))
