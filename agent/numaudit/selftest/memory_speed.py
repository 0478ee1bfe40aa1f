"""The program memory_speed.c: built where there is a C compiler, then given orders."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import msgspec
from msgspec import Struct

from numaudit.errors import NumauditError, Unavailable
from numaudit.topology.nodeset import CpuSet

_SOURCE = Path(__file__).with_name("memory_speed.c")
_COMPILERS = ("cc", "gcc", "clang")
_BUILT_WITHIN = 120.0
T = TypeVar("T")


class LatencyRound(msgspec.Struct):
    """One round of following the chain."""

    ns: float
    nodes: tuple[int, ...]
    """Nodes of the CPUs that ran it."""
    end: int
    """Offset in the memory at which the chain was left, in bytes."""


class Bandwidth(msgspec.Struct):
    """One round of reading everything."""

    bytes_per_second: float
    nodes: tuple[int, ...]


class PagePlacement(msgspec.Struct):
    """Pages of the memory by node, those elsewhere, and the size of a page."""

    pages: Mapping[int, int]
    elsewhere: int
    huge_page_bytes: int


class _Ready(msgspec.Struct):
    line: int


@contextmanager
def built() -> Iterator[Path]:
    """The program, for as long as the block lasts. Raises Unavailable where it cannot be built."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise Unavailable(
            f"no C compiler ({', '.join(_COMPILERS)}) to build the measuring program with: install one "
            "(Debian: gcc and libc6-dev), or calibrate another machine of the same kind and copy its file"
        )
    with TemporaryDirectory(prefix="numaudit-calibrate-") as folder:
        program = Path(folder) / "memory_speed"
        command = [compiler, "-O3", "-pthread", "-o", str(program), str(_SOURCE)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=_BUILT_WITHIN, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise Unavailable(f"{compiler} does not work: {reason}") from error
        if result.returncode:
            last = (result.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise Unavailable(
                f"{compiler} cannot build the measuring program (are the C library's headers there?): {last}"
            )
        yield program


class SpeedProgram(Struct, frozen=True):
    """The program with its memory in place."""

    process: subprocess.Popen[str]
    line: int
    """Bytes of a cache line. Each line of the memory holds one pointer of the chain."""

    def latency(self) -> LatencyRound:
        return self._order("latency", LatencyRound)

    def bandwidth(self) -> Bandwidth:
        return self._order("bandwidth", Bandwidth)

    def evidence(self) -> PagePlacement:
        return self._order("evidence", PagePlacement)

    def _order(self, word: str, answer: type[T]) -> T:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and its last words say why
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
        return _answer(self.process, answer)


@contextmanager
def running(program: Path, cpus: CpuSet, node: int, size: int) -> Iterator[SpeedProgram]:
    """Start it on these CPUs with `size` bytes on a node; it ends with the block. Raises Unavailable."""
    pipe = subprocess.PIPE
    try:
        command = [str(program), str(cpus), str(node), str(size)]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    except PermissionError as error:
        raise Unavailable(f"{program} may not be run: set TMPDIR to a folder that is not mounted noexec") from error
    try:
        yield SpeedProgram(process, _answer(process, _Ready).line)
    finally:
        process.kill()
        process.wait()
        for end in (process.stdin, process.stdout, process.stderr):
            assert end is not None
            with suppress(BrokenPipeError):  # an order that the ended process has not read
                end.close()


def _answer(process: subprocess.Popen[str], answer: type[T]) -> T:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise Unavailable(_last_words(process))
    try:
        return msgspec.json.decode(line, type=answer, strict=False)
    except msgspec.DecodeError as error:
        raise NumauditError(f"the measuring program answers {line.strip()!r}: {error}") from error


def _last_words(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = process.stderr.read().strip()
    code = process.wait()
    if said:
        return said
    return "the measuring program ended " + (f"by signal {-code}" if code < 0 else f"with exit code {code}")
