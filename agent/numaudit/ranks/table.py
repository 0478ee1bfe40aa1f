"""The table of launchers: one row for each way of declaring a placement, in the order of evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from numaudit.ranks import command_line
from numaudit.ranks.command_line import kept
from numaudit.ranks.declaration import RANK_KEYS, CommandLine, Declaration, Placeable, Runtime, Told
from numaudit.ranks.launcher import Keep, Launcher, form
from numaudit.ranks.launchers import jobs, mappings, runtimes, units, wrappers

LAUNCHERS: tuple[Launcher, ...] = (
    *jobs.ROWS,
    *mappings.ROWS,
    wrappers.NUMACTL_ROW,
    *wrappers.ROWS,
    *jobs.TRAINING,
    *units.ROWS,
    *runtimes.SLURM,
    *runtimes.ROWS,
    runtimes.OPENMP,
    jobs.RAY,
)
"""Evidence of the process itself comes before that of its ancestors, and options before variables of batch systems.
Last is Ray, which places nothing."""

OF_JOBS = frozenset(row.name for row in (*jobs.ROWS, *jobs.TRAINING, *runtimes.SLURM, *runtimes.ROWS))
"""Launchers that choose a place for each process of a job."""
KEYS: Mapping[str, Keep] = {
    **{key: form("[0-9]{1,7}") for key in RANK_KEYS},
    **{key: keep for row in LAUNCHERS for key, keep in row.keys.items()},
}
"""Variables that are kept of an environment, and no others."""
RUNTIME_KEYS = frozenset(key for row in LAUNCHERS if row.follows_runtime for key in row.keys)
"""Variables that count only where the runtime that follows them is loaded."""
_LIBRARIES: Mapping[Runtime, re.Pattern[str]] = {
    "openmp": re.compile(r"lib(?:gomp|omp|iomp)\d*[-.]", re.ASCII),
    "mpi": re.compile(r"lib(?:mpi|mpich|mvapich)\d*(?:_\w+)?[-.]", re.ASCII),
}
PROGRAMS = tuple(program for row in LAUNCHERS for program in row.programs)


def given_in(words: bytes, executable: str | None = None) -> CommandLine:
    """Options of the table in /proc/PID/cmdline, and names of programs. The rest is dropped."""
    return command_line.read(words, PROGRAMS, executable)


def environment_in(environ: bytes) -> dict[str, str]:
    """Variables of the table in /proc/PID/environ. The rest is dropped."""
    return kept(environ, KEYS)


def declarations(told: Told, here: Placeable) -> tuple[Declaration, ...]:
    """The declaration of its memory and that of its CPUs: of each the first row that says something.

    None of both = the first row that names something it cannot resolve, if there is one.
    """
    found = [one for row in LAUNCHERS if (one := row.declaration(told, here)) is not None]
    memory = next((one for one in found if one.has_memory), None)
    cpus = next((one for one in found if one.has_cpus), None)
    first = [one for one in (memory, cpus) if one is not None] or found[:1]
    return tuple(dict.fromkeys(first))


def runtimes_in(libraries: Iterable[str]) -> frozenset[Runtime]:
    """Runtimes among shared libraries, which packages give names of their own: libgomp-a34b3233.so.1.0.0."""
    return frozenset(kind for name in libraries for kind, named in _LIBRARIES.items() if named.match(name))
