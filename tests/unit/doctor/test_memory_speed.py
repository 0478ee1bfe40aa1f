"""The measuring program: built and run for real on this host."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from numaudit.doctor.calibrate import built, running
from numaudit.errors import Unavailable
from numaudit.topology.nodeset import CpuSet

needs_compiler = pytest.mark.skipif(
    all(shutil.which(name) is None for name in ("cc", "gcc", "clang")), reason="no C compiler on this machine"
)
MIB = 1 << 20
SIZE = 32 * MIB
LOADS = 1 << 19
"""Of one round."""


def _compiler(folder: Path, script: str) -> None:
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@needs_compiler
def test_its_memory_is_where_the_kernel_shows_it_in_numa_maps() -> None:
    cpu = min(os.sched_getaffinity(0))
    with built() as program, running(program, CpuSet.of(cpu), 0, SIZE) as work:
        pages = work.evidence()
        lines = Path(f"/proc/{work.process.pid}/numa_maps").read_text().splitlines()
    bound = next(line.split() for line in lines if " bind:0 " in line)
    shown = sum(int(word.removeprefix("N0=")) for word in bound if word.startswith("N0="))
    per_page = int(next(word.removeprefix("kernelpagesize_kB=") for word in bound if word.startswith("kernelp"))) << 10
    assert sum(pages.pages.values()) * os.sysconf("SC_PAGE_SIZE") == SIZE == shown * per_page
    assert (set(pages.pages), pages.elsewhere) == ({0}, 0)


@needs_compiler
def test_a_load_takes_time_and_bytes_are_read() -> None:
    cpus = CpuSet.from_ids(os.sched_getaffinity(0))
    with built() as program, running(program, cpus, 0, SIZE) as work:
        latency, bandwidth = work.latency(), work.bandwidth()
    assert 0.2 < latency.ns < 100_000
    assert bandwidth.bytes_per_second > 10 * MIB
    assert len(bandwidth.nodes) == len(cpus)


@needs_compiler
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_the_chain_of_pointers_visits_every_line_before_it_begins_again(rounds: int) -> None:
    """In memory of as many lines as a number of rounds follows, the last of them ends where the first began."""
    cpu = CpuSet.of(min(os.sched_getaffinity(0)))
    with built() as program:
        with running(program, cpu, 0, SIZE) as work:
            line = work.line
        with running(program, cpu, 0, rounds * LOADS * line) as work:
            ends = [work.latency().end for _ in range(2 * rounds)]
    assert [number for number, end in enumerate(ends, 1) if end == 0] == [rounds, 2 * rounds]


@needs_compiler
def test_a_node_that_is_not_there_is_named_as_the_reason() -> None:
    cpu = CpuSet.of(min(os.sched_getaffinity(0)))
    with (
        built() as program,
        pytest.raises(Unavailable, match="cannot bind memory to the node: Invalid argument"),
        running(program, cpu, 999, SIZE),
    ):
        pass


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"no C compiler \(cc, gcc, clang\).*Debian: gcc and libc6-dev"), built():
        pass


def test_a_compiler_without_headers_says_so_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _compiler(tmp_path, "echo 'fatal error: errno.h: No such file' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"cannot build.*errno\.h: No such file"), built():
        pass


def test_a_program_that_dies_is_an_answer_with_its_signal(tmp_path: Path) -> None:
    program = tmp_path / "dies"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    with (
        pytest.raises(Unavailable, match="the measuring program ended by signal 9"),
        running(program, CpuSet.of(0), 0, SIZE),
    ):
        pass


def test_a_folder_mounted_noexec_is_named(tmp_path: Path) -> None:
    program = tmp_path / "not-executable"
    program.write_text("")
    with pytest.raises(Unavailable, match="set TMPDIR"), running(program, CpuSet.of(0), 0, SIZE):
        pass
