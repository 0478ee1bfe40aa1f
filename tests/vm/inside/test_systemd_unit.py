"""deploy/systemd/numaudit.service under a real systemd: all its protections are on, and the agent measures in them."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from launched import called, cpus_of, policies_of, ranks, tried_with
from processes.agent_process import PATIENCE, eventually
from workload import Cgroup

pytestmark = pytest.mark.one_kernel
CHECKOUT = Path(__file__).parents[3]
PROGRAM = "/opt/numaudit/bin/numaudit"
UNITS = Path("/etc/systemd/system")
SETTINGS = Path("/etc/numaudit/agent.yaml")
LOG = Path("/run/agent.log")
CGROUPS = Path("/sys/fs/cgroup")
DROP_IN = f"""\
[Unit]
DefaultDependencies=no
[Service]
TimeoutStartSec={10 * PATIENCE:g}
WatchdogSec={PATIENCE:g}
Environment=PYTHONPATH=/opt/numaudit/agent
StandardOutput=append:{LOG}
StandardError=append:{LOG}
"""
"""No other units, time for an emulated CPU, this checkout's modules, and a log without a journal."""
TARGET = "[Unit]\nDefaultDependencies=no\nWants={}.service\n"
BOUND = """\
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sleep 600
NUMAPolicy=bind
NUMAMask=2
CPUAffinity=numa
"""
RIGHTS = 1 << 19 | 1 << 38 | 1 << 39
"""SYS_PTRACE, PERFMON and BPF (include/uapi/linux/capability.h)."""


@dataclass(frozen=True, slots=True)
class Systemd:
    """A systemd that is the first process of a PID namespace, and manages the guest's cgroups."""

    pid: int

    def ask(self, *words: str) -> str:
        command = [*_in_place_of(self.pid), "--pid", "systemctl", *words]
        ignoring = {**os.environ, "SYSTEMD_IGNORE_CHROOT": "1"}  # the guest's root is one
        return subprocess.run(command, env=ignoring, capture_output=True, text=True, check=False).stdout.strip()

    def value(self, name: str) -> str:
        return self.ask("show", "--property", name, "--value", "numaudit")


def _in_place_of(pid: int) -> list[str]:
    """What runs a command among the mounts that a process has."""
    return ["nsenter", "--target", str(pid), "--mount", "--root", "--wd"]


@pytest.fixture
def systemd() -> Iterator[Systemd]:
    """With the unit as it is, but for the place of the program: the checkout is /opt/numaudit here."""
    folder = Path("/opt/numaudit")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", CHECKOUT, folder], check=True)
    start = f"{folder / Path(sys.executable).relative_to(CHECKOUT)} -c 'from numaudit.cli.start import run; run()'"
    (UNITS / "numaudit.service.d").mkdir(parents=True, exist_ok=True)
    (UNITS / "numaudit.service.d/try.conf").write_text(DROP_IN)
    (UNITS / "try.target").write_text(TARGET.format("numaudit"))
    unit = (CHECKOUT / "deploy/systemd/numaudit.service").read_text()
    assert unit.count(PROGRAM) == 1
    (UNITS / "numaudit.service").write_text(unit.replace(PROGRAM, start))
    SETTINGS.parent.mkdir(exist_ok=True)
    SETTINGS.write_text("interval: 1s\n")
    with _started() as one:
        yield one
    subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.contextmanager
def _started() -> Iterator[Systemd]:
    before = _groups()
    namespaces = ["unshare", "--fork", "--kill-child", "--pid", "--mount", "--mount-proc"]
    unshare = subprocess.Popen([*namespaces, "/lib/systemd/systemd", "--system", "--unit=try.target"],
                               env={"container": "vm", "PATH": "/usr/bin:/bin"}, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        assert eventually(lambda: bool(psutil.Process(unshare.pid).children()))
        yield Systemd(psutil.Process(unshare.pid).children()[0].pid)
    finally:
        unshare.kill()
        unshare.wait()
        assert eventually(lambda: _are_removed(_groups() - before))


def _may_write(pid: int, folder: str) -> bool:
    command = [*_in_place_of(pid), "touch", f"{folder}/numaudit-was-here"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def _groups() -> set[Path]:
    return {path for path in CGROUPS.glob("**/") if path != CGROUPS}


def _are_removed(groups: set[Path]) -> bool:
    """Whether these are gone; a group can be removed once all its processes have ended."""
    for group in sorted(groups, reverse=True):
        with contextlib.suppress(OSError):
            group.rmdir()
    return not any(group.exists() for group in groups)


def _metrics() -> str:
    with urllib.request.urlopen("http://127.0.0.1:9746/metrics", timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def test_the_unit_starts_measures_reloads_and_ends(systemd: Systemd) -> None:
    assert eventually(lambda: systemd.value("ActiveState") == "active", 5 * PATIENCE), LOG.read_text()
    # The unit's own loader compiled and loaded BPF programs, under its filter of system calls.
    assert eventually(lambda: 'numaudit_feature_enabled{feature="bpf_cpu_time"} 1' in _metrics(), 5 * PATIENCE)
    assert 'container="/system.slice/numaudit.service"' in _metrics()

    (pid, *_) = (CGROUPS / "system.slice/numaudit.service/cgroup.procs").read_text().split()
    agent = psutil.Process(int(pid))
    held = Path(f"/proc/{agent.pid}/status").read_text()
    assert {int(value, 16) for value in re.findall(r"^Cap(?:Eff|Prm|Bnd):\s*(\w+)$", held, re.MULTILINE)} == {RIGHTS}
    assert "NoNewPrivs:\t1" in held
    places = ("/", "/etc", "/var", "/opt/numaudit", "/sys/fs/cgroup", "/tmp")
    assert [place for place in places if _may_write(agent.pid, place)] == ["/tmp"]  # its own

    systemd.ask("reload", "numaudit")
    assert eventually(lambda: "the settings were read again; changed: none" in LOG.read_text())
    SETTINGS.write_text("interval: 2s\n")
    assert eventually(lambda: "the settings were read again; changed: interval" in LOG.read_text())

    systemd.ask("stop", "numaudit")
    ended = [systemd.value(name) for name in ("ActiveState", "Result", "ExecMainStatus")]
    assert ended == ["inactive", "success", "0"]


def test_a_service_is_where_its_unit_binds_it_until_it_is_moved() -> None:
    tried_with("systemd", "systemd", ("systemctl", "--version"))
    (UNITS / "try.target").write_text(TARGET.format("bound"))
    (UNITS / "bound.service").write_text(BOUND)
    group = Cgroup(CGROUPS / "system.slice/bound.service")
    with _started():
        assert eventually(lambda: group.path.is_dir() and len(called(group, "sleep")) == 1)
        (pid,) = called(group, "sleep")
        assert (cpus_of(pid), policies_of(pid)) == (["2"], {"bind:2"})
        (rank,) = ranks(group).values()
        assert ([one.launcher for one in rank.declarations], rank.verdict) == (["systemd"], "in-force")
        os.sched_setaffinity(pid, {0})
        (rank,) = ranks(group).values()
        assert (rank.problems[0].name, rank.problems[0].cause) == ("declared-not-in-force", "cpus-not-bound")
