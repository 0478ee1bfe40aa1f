"""`numaudit run` and its command killed at every step of writing the state: what is held is right again afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commands import NODE, NODES, Lab, cgroups, ending

pytestmark = pytest.mark.one_kernel
RACES = 2
"""Pairs of runs."""
FILES = ("memory_manager_state", "cpu_manager_state")
ALL_FREE = dict.fromkeys(NODES, NODE)
STEPS = ("open", "write", "fsync", "rename", "directory fsync")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield Lab.below(tmp_path)
    assert not cgroups(), "a command's cgroup is still there"


def at(step: str, nth: int, state: Path, act: Callable[[], None], after: bool) -> Callable[[], None]:
    """Act just before or after the n-th system call of this kind on a file in the folder, in whoever calls this."""
    name = step.removeprefix("directory ")

    def patch() -> None:
        real, count = getattr(os, name), 0

        def call(*arguments: object, **options: object) -> object:
            nonlocal count
            if not _is_meant(step, arguments, state):
                return real(*arguments, **options)
            count += 1
            if count == nth and not after:
                act()
            result = real(*arguments, **options)
            if count == nth and after:
                act()
            return result

        setattr(os, name, call)

    return patch


def _is_meant(step: str, arguments: tuple[object, ...], state: Path) -> bool:
    first = arguments[0]
    path = Path(f"/proc/self/fd/{first}").readlink() if isinstance(first, int) else Path(os.fsdecode(str(first)))
    if step == "directory fsync":
        return path == state
    return path.parent == state and path.name.startswith(tuple(f".{file}." for file in FILES))


def assert_repaired(lab: Lab) -> None:
    """The next command reads whole files with fitting checksums (it refuses others), and leaves everything free."""
    code, text = lab.run(100, "true")
    assert code == 0, text
    assert lab.entries() == {}
    assert lab.free() == ALL_FREE
    assert lab.shared_cpus() == "0-3"
    assert sorted(path.name for path in lab.state.iterdir()) == sorted((*FILES, "lock"))


@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_while_it_writes_loses_no_memory(step: str, lab: Lab) -> None:
    """A run writes each of the two files when it takes its memory and when it gives it back: four times."""
    nth, after = 1 + STEPS.index(step) % 4, bool(random.Random(step).getrandbits(1))
    killed = lab.start(
        100,
        "true",
        options=("--cpus", "1"),
        before=at(step, nth, lab.state, lambda: os.kill(os.getpid(), signal.SIGKILL), after),
    )
    with ending(killed):
        assert killed.end()[0] == -signal.SIGKILL, f"{step} {nth} was never reached"
    assert_repaired(lab)


@pytest.mark.parametrize("step", STEPS)
def test_a_command_killed_while_another_run_writes_is_released(step: str, lab: Lab) -> None:
    first = lab.start(100, "sh", "-c", "echo $$; exec sleep 1000", options=("--cpus", "1"))
    pid = int(first.line())
    second = lab.start(100, "cat", before=at(step, 1, lab.state, lambda: os.kill(pid, signal.SIGKILL), after=False))
    with ending(first, second):
        assert first.end()[0] == 128 + signal.SIGKILL
        assert second.end()[0] == 0
    assert_repaired(lab)


def test_of_two_that_start_at_the_same_instant_and_do_not_both_fit_one_is_refused(lab: Lab) -> None:
    for _ in range(RACES):
        gate, opener = os.pipe()

        def wait_for_the_gate(gate: int = gate, opener: int = opener) -> None:
            os.close(opener)
            os.read(gate, 1)

        pair = [lab.start(1000, "sh", "-c", "echo began; exec cat", before=wait_for_the_gate) for _ in range(2)]
        with ending(*pair):
            os.close(gate)
            os.close(opener)
            first = [one.line() for one in pair]
            (winner,) = [one for one, line in zip(pair, first, strict=True) if line == "began\n"]
            (loser,) = [one for one in pair if one is not winner]
            assert loser.end()[0] == 125
            assert len(lab.entries()) == 1
            assert sum(lab.free().values()) == 4 * NODE - 1000 * (1 << 20)
            assert winner.end()[0] == 0
    assert_repaired(lab)


def test_of_two_that_start_at_the_same_instant_and_both_fit_each_gets_its_own_cpu(lab: Lab) -> None:
    for _ in range(RACES):
        script = "grep Cpus_allowed_list /proc/self/status; exec cat"
        pair = [lab.start(300, "sh", "-c", script, options=("--cpus", "1")) for _ in range(2)]
        with ending(*pair):
            cpus = {one.line().split()[1] for one in pair}
            assert len(cpus) == 2
            assert len(lab.entries()) == 2
            assert sum(lab.free().values()) == 4 * NODE - 600 * (1 << 20)
            assert [one.end()[0] for one in pair] == [0, 0]
    assert_repaired(lab)


def test_a_full_disk_refuses_the_command_and_keeps_what_is_held(lab: Lab) -> None:
    lab.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", lab.state], check=True)
    try:
        first = lab.start(100, "sh", "-c", "echo began; exec cat")
        with ending(first):
            assert first.line() == "began\n"
            before = lab.entries()
            with (lab.state / "filler").open("wb", buffering=0) as filler:
                try:
                    while True:
                        filler.write(b"x" * 4096)
                except OSError:
                    pass
            code, text = lab.run(100, "true")
            assert code == 125 and "No space left" in text, text
            assert lab.entries() == before
            (lab.state / "filler").unlink()
            assert first.end()[0] == 0
        assert_repaired(lab)
    finally:
        subprocess.run(["umount", lab.state], check=True)
