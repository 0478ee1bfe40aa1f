"""Real launchers and servers, fetched by `tests/vm/programs.py`, and the processes that they start in one cgroup."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from numaudit.engine.observer import Observer
from numaudit.evaluation.ranks.judge import ranks_of
from numaudit.evaluation.ranks.rank import Rank
from numaudit.kernel.host import Host
from numaudit.ranks.table import LAUNCHERS
from numaudit.snapshot import ContainerId
from workload import Cgroup, eventually

PROGRAMS = Path(__file__).parents[3] / ".cache/vm/programs"
DEBIAN = PROGRAMS / "debian"
LIBRARIES = DEBIAN / "usr/lib/x86_64-linux-gnu"
OUTPUT = Path("/run/launched.log")
"""All that the launcher and its processes print."""
FOLDERS = (f"{DEBIAN}/usr/bin", f"{DEBIAN}/usr/sbin", *os.environ["PATH"].split(":"))
FROM_DEBIAN = {
    "PATH": ":".join(FOLDERS),
    "LD_LIBRARY_PATH": f"{LIBRARIES}:{LIBRARIES}/slurm-wlm",
    "OPAL_PREFIX": f"{DEBIAN}/usr" if (DEBIAN / "usr/bin/orterun").exists() else "/usr",
    "LUA_PATH": f"{DEBIAN}/usr/share/lua/?.lua;;",
    "LUA_CPATH": f"{LIBRARIES}/?.so;;",
}
"""An environment for Debian's packages where they were unpacked."""
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture(scope="module")
def programs() -> None:
    """Of tests on 6.12, whose guest runs the host's programs."""
    if platform.machine() != "x86_64":
        pytest.skip("the launchers were fetched for the host's CPUs")
    if not (PROGRAMS / "requested.txt").is_file():
        assert "CI" not in os.environ, f"no launchers in {PROGRAMS}"
        pytest.skip(f"no launchers in {PROGRAMS}: tests/vm/programs.py fetches them")


def program(name: str) -> str:
    found = shutil.which(name, path=":".join(FOLDERS))
    assert found is not None, f"no {name} in {FOLDERS}"
    return found


@pytest.fixture(scope="module")
def named_host(programs: None) -> Iterator[str]:
    """Open MPI 4 and Slurm need a name that can be looked up, and the guest has none."""
    before, name = socket.gethostname(), "localhost"
    socket.sethostname(name)
    yield name
    socket.sethostname(before)


def tried_with(
    launcher: str, software: str, version: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
) -> None:
    """The row of the table of launchers names the version that runs here, by what the program prints itself."""
    done = subprocess.run(version, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    number = re.search(r"\d+(?:\.\d+)?", (done.stdout + done.stderr).replace("x86_64", ""))
    assert number is not None, done
    tried = next(row.tried for row in LAUNCHERS if row.name == launcher)
    here = f"{software} {number[0]}."
    assert any(here.startswith(f"{one}.") for one in tried), (
        f"{launcher}: it is {software} {number[0]}, and the row says {tried}"
    )


@contextlib.contextmanager
def launched(
    group: Cgroup, command: Sequence[str], environment: Mapping[str, str], name: str, count: int
) -> Iterator[list[int]]:
    """`count` processes called `name` that a command starts in a cgroup, as soon as all have become that program."""
    OUTPUT.write_bytes(b"")
    joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group.path / "cgroup.procs"), *command]
    with OUTPUT.open("a") as output:
        process = subprocess.Popen(
            joining, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=output, stderr=output
        )

    def all_run() -> list[int]:
        found = called(group, name)
        if process.poll() is None:
            assert len(found) == count, found
            return found
        pytest.fail(f"{' '.join(command)} ended with {process.returncode}: {OUTPUT.read_text()[-2000:]}")

    try:
        yield eventually(all_run)
    finally:
        group.write("cgroup.kill", "1")
        process.wait()


def called(group: Cgroup, name: str) -> list[int]:
    """Processes of a cgroup with this name."""
    found = []
    for pid in map(int, group.read("cgroup.procs").split()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return found


def ranks(group: Cgroup) -> dict[int, Rank]:
    """By process."""
    id_ = ContainerId(group.id)
    snapshot = Observer.of(Host()).observe(20.0, mappings_of=frozenset({id_}), with_processes=True)
    return {one.pid: one for one in ranks_of(id_, snapshot)}


def cpus_of(pid: int) -> list[str]:
    """Of each thread, as the kernel lists them."""
    texts = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/status")]
    return [text.partition("Cpus_allowed_list:\t")[2].partition("\n")[0] for text in texts]


def policies_of(pid: int) -> set[str]:
    """Of its mappings, as numa_maps has them."""
    return {line.split()[1] for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines()}


def under_seccomp(command: Sequence[str]) -> list[str]:
    """A command that is refused all calls of memory policies, as containers of Docker are."""
    text = f"import os, sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import rank; rank.seccomp(); "
    return [sys.executable, "-I", "-S", "-c", f"{text}os.execvp(sys.argv[1], sys.argv[1:])", *command]
