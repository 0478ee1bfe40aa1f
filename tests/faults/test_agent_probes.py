"""The agent serves and ticks whatever becomes of the process that loads its probes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from processes.agent_process import COMPILING, NUMAUDIT, PATIENCE, Agent, eventually, port_of, running_agent

pytestmark = pytest.mark.root

Bcc = Callable[[str], dict[str, str]]

V2_ONLY = (
    *("unshare", "--mount", "sh", "-c"),
    'umount -R -l /sys/fs/cgroup; mount -t cgroup2 x /sys/fs/cgroup; exec "$@"',
    "sh",
)
"""Programs are loaded where cgroups are of version 2 only."""
V2_ENOUGH = COMPILING + "from numaudit.kernel import cgroup; cgroup._controllers = lambda _: ['memory']; "
"""Elsewhere memory stays with version 1, which does not matter to a loader."""


@pytest.fixture
def bcc(tmp_path: Path) -> Bcc:
    """An environment in which `import bcc` does this first, until the file `healed` is beside it."""

    def write(code: str) -> dict[str, str]:
        folder = tmp_path / "modules"
        folder.mkdir()
        (folder / "bcc.py").write_text(
            "import os, signal, sys, time\n"
            "here = os.path.dirname(__file__)\n"
            f"if not os.path.exists(here + '/healed'):\n    {code}\n"
            "sys.path.remove(here)\ndel sys.modules['bcc']\nimport bcc\n"
        )
        return {"PYTHONPATH": str(folder)}

    return write


def _agent(folder: Path, environment: dict[str, str], program: str = "") -> AbstractContextManager[Agent]:
    return running_agent(
        *("--interval", "1s"),
        log=folder / "log",
        before=V2_ONLY,
        environment=environment,
        program=V2_ENOUGH + program,
    )


def _reason(agent: Agent, feature: str) -> str:
    found = [dict(labels) for labels in agent.samples()["numaudit_feature_problem_info"]]
    return next((one["reason"] for one in found if one["feature"] == feature), "")


def test_a_loader_that_hangs_holds_back_neither_pages_nor_ticks_nor_the_end(bcc: Bcc, tmp_path: Path) -> None:
    environment = bcc("time.sleep(10**6)")
    with running_agent(
        "--interval", "1s", log=tmp_path / "log", before=V2_ONLY, environment=environment, program=V2_ENOUGH
    ) as agent:
        loaders = psutil.Process(agent.process.pid).children()
        assert loaders
        assert agent.value("numaudit_feature_enabled", feature="bpf_cpu_time") == 0
        assert _reason(agent, "bpf_cpu_time") == "loading"
        assert agent.value("numaudit_collector_success", collector="page_alloc") is None  # nobody asked for it
        assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) >= 2)
        loaders += psutil.Process(agent.process.pid).children()
        assert agent.stop()[0] == 0
        assert eventually(lambda: not any(loader.is_running() for loader in loaders))


def test_pages_are_served_before_there_are_probes_and_a_tick(bcc: Bcc, tmp_path: Path) -> None:
    patient = "from numaudit.daemon import loop; loop._PROBES_WITHIN = 10**6; "
    log = tmp_path / "log"
    program = [*V2_ONLY, *NUMAUDIT[:2], V2_ENOUGH + patient + NUMAUDIT[2], "agent", "--listen", "127.0.0.1:0"]
    with log.open("wb") as stderr:
        process = subprocess.Popen(program, stderr=stderr, env={**psutil.Process().environ(), **bcc("time.sleep(1e6)")})
    try:
        assert eventually(lambda: port_of(log) is not None)
        agent = Agent(process, log, port_of(log) or 0)
        assert [agent.get(path)[0] for path in ("/-/healthy", "/-/ready", "/metrics")] == [200, 503, 503]
        assert agent.stop()[0] == 0
    finally:
        process.kill()
        process.wait(PATIENCE)


def test_a_loader_that_was_killed_is_tried_again(bcc: Bcc, tmp_path: Path) -> None:
    soon = "from numaudit.daemon import loading; loading.FIRST_PAUSE = loading.LONGEST_PAUSE = 1.0; "
    environment = bcc("os.kill(os.getpid(), signal.SIGKILL)")
    with running_agent(
        "--interval", "1s", log=tmp_path / "log", before=V2_ONLY, environment=environment, program=V2_ENOUGH + soon
    ) as agent:
        assert eventually(lambda: _reason(agent, "bpf_cpu_time") == "loader-died")
        assert agent.value("numaudit_collector_success", collector="cpu_time") == 0
        (tmp_path / "modules/healed").touch()
        assert eventually(lambda: agent.value("numaudit_feature_enabled", feature="bpf_cpu_time") == 1)
        assert eventually(lambda: agent.value("numaudit_collector_success", collector="cpu_time") == 1)
        assert agent.log().count("probes do not run: cpu_time") == 1
        assert agent.log().count("probes run: ") == 1
        assert agent.stop()[0] == 0
