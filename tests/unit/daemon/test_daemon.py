"""The parts of the daemon that need no host: logs, notifications."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.daemon.logs import LOGGERS, SAME_MESSAGE, Changes, RateLimit, set_up, use
from numaudit.daemon.loop import Notifier


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Setting up the agent's logs changes the whole process."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers[:], logger.propagate, logger.level) for logger in loggers]
    complaining, hook = logging.raiseExceptions, threading.excepthook
    yield
    threading.excepthook = hook
    logging.raiseExceptions = complaining
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate, logger.level = handlers, propagate, level


def test_the_same_message_is_written_a_few_times_and_the_rest_is_counted() -> None:
    clock = [0.0]
    limit = RateLimit(lambda: clock[0])

    def write(message: str, value: int) -> str | None:
        record = logging.LogRecord("numaudit", logging.INFO, "", 0, message, (value,), None)
        return record.getMessage() if limit.filter(record) else None

    written = [write("push %d failed", number) for number in range(20)]
    assert written[:SAME_MESSAGE] == [f"push {number} failed" for number in range(SAME_MESSAGE)]
    assert set(written[SAME_MESSAGE:]) == {None}
    assert limit.suppressed == 20 - SAME_MESSAGE
    assert write("another %d", 1) == "another 1"
    clock[0] = 61
    assert write("push %d failed", 20) == f"push 20 failed ({20 - SAME_MESSAGE} like this were left out)"


def test_a_log_line_can_be_a_json_object() -> None:
    stream = io.StringIO()
    set_up("info", "json", stream)
    logging.getLogger("numaudit.test").warning("a\n%s", "b")
    logging.getLogger("numaudit.test").debug("not this")
    logging.getLogger("opentelemetry.x").info("nor this")
    (line,) = stream.getvalue().splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == ("warning", "numaudit.test", "a\nb")


def test_a_traceback_and_names_of_others_stay_on_one_line() -> None:
    stream = io.StringIO()
    set_up("info", "text", stream)
    for name in ("numaudit.test", "opentelemetry.x"):
        try:
            raise ValueError("two\nlines")
        except ValueError:
            logging.getLogger(name).exception("pod %s", "a\x1b[2J\nb\udc80")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.isprintable()
        assert "pod a\\x1b[2J\\nb\\x80\\nTraceback" in line
        assert line.endswith("ValueError: two\\nlines")


def test_a_thread_that_fails_is_a_message_on_one_line() -> None:
    stream = io.StringIO()
    set_up("info", "text", stream)
    thread = threading.Thread(target=lambda: 1 // 0)
    thread.start()
    thread.join()
    (line,) = stream.getvalue().splitlines()
    assert "ERROR numaudit: internal error: a thread has ended" in line
    assert line.endswith("ZeroDivisionError: integer division or modulo by zero")


def test_the_level_and_the_format_change_while_the_agent_runs() -> None:
    stream = io.StringIO()
    set_up("info", "text", stream)
    use("debug", "json")
    logging.getLogger("numaudit.test").debug("now")
    logging.getLogger("opentelemetry.x").info("not this")
    use("error", "text")
    logging.getLogger("numaudit.test").warning("not this")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["message"] == "now"


def test_a_log_that_cannot_be_written_does_not_stop_the_agent(capfd: pytest.CaptureFixture[str]) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        set_up("info", "text", full)
        logging.getLogger("numaudit.test").warning("lost")
        with pytest.raises(OSError, match="No space"):
            full.close()
    assert capfd.readouterr().err == ""


def test_only_a_change_is_news() -> None:
    changes = Changes()
    states = ["ok", "ok", "failed", "failed", "ok"]
    assert [changes.is_news("residency", state, usual="ok") for state in states] == [False, False, True, False, True]


def test_systemd_is_notified_when_the_agent_is_ready_alive_and_stopping(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        notifier = Notifier.of({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())})
        assert notifier.watchdog == 3
        notifier.ready("ticking")
        notifier.alive()
        notifier.stopping()
        assert [systemd.recv(100) for _ in range(3)] == [b"READY=1\nSTATUS=ticking", b"WATCHDOG=1", b"STOPPING=1"]


@pytest.mark.parametrize(
    "environment",
    [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}],
)
def test_without_a_watchdog_of_ours_there_is_no_sign_of_life(environment: dict[str, str]) -> None:
    assert Notifier.of(environment).watchdog is None


def test_a_systemd_that_has_gone_is_no_error(tmp_path: Path) -> None:
    Notifier(str(tmp_path / "none"), 1.0).alive()
