"""An agent that may open few files says so, goes on, and is well again when there are enough."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from processes.agent_process import Agent, eventually, running_agent

pytestmark = pytest.mark.root

FILES = 64
GROUPS = 200


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup with many others in it."""
    try:
        group = find_hierarchies(Host()).memory / f"numaudit-test-{os.getpid()}"
    except Unavailable as reason:
        pytest.skip(str(reason))
    group.mkdir()
    try:
        for number in range(GROUPS):
            (group / str(number)).mkdir()
        yield group
    finally:
        for child in [*group.glob("*/"), group]:
            child.rmdir()


def _limit(agent: Agent, files: int) -> None:
    _, hard = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (files, hard))


def _open_files(agent: Agent) -> int:
    return len(list(Path(f"/proc/{agent.process.pid}/fd").iterdir()))


def test_an_agent_without_a_file_to_open_says_what_to_do_and_goes_on(group: Path, tmp_path: Path) -> None:
    before = ("prlimit", f"--nofile={FILES}:{FILES}")
    settings = ("--interval", "1s", "--set", "web.timeout=60s")
    with running_agent(*settings, log=tmp_path / "log", before=before) as agent, ExitStack() as clients:

        def all_are_open() -> bool:
            clients.enter_context(socket.create_connection(("127.0.0.1", agent.port)))
            return _open_files(agent) == FILES

        assert eventually(all_are_open)
        assert eventually(lambda: "Too many open files; raise the limit (LimitNOFILE" in agent.log())
        clients.close()
        ticks = agent.value("numaudit_ticks_total") or 0
        assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) > ticks)
        assert agent.value("numaudit_failed_ticks_total") == 0
        assert agent.stop()[0] == 0
    assert "internal error" not in agent.log()


def test_groups_that_cannot_be_listed_have_not_ended(group: Path, tmp_path: Path) -> None:
    with running_agent("--interval", "1s", log=tmp_path / "log") as agent:
        _limit(agent, 3)
        (group / "new").mkdir()
        assert eventually(lambda: "cgroups: failed: cannot read" in agent.log())
        assert eventually(lambda: "Too many open files; raise the limit (LimitNOFILE" in agent.log())
        _limit(agent, 1000)
        seen = f"/{group.name}/new"
        assert eventually(lambda: any(one["path"] == seen for one in agent.report()["containers"]))
        assert agent.stop()[0] == 0
    assert "internal error" not in agent.log()


def test_an_error_is_logged_when_no_file_can_be_opened() -> None:
    """Nothing that a message needs may be imported only then."""
    program = (
        "import logging, os, resource\n"
        "from numaudit.daemon import logs\n"
        "logs.set_up('info', 'text')\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
        "try:\n"
        "    while True:\n"
        "        os.open('/dev/null', os.O_RDONLY)\n"
        "except OSError:\n"
        "    logging.getLogger('numaudit').exception('it failed')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert "it failed\\nTraceback" in line
