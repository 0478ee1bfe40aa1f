"""The table of launchers: one row for each way of declaring a placement, in the order of evidence."""

from __future__ import annotations

from collections.abc import Mapping

from numaudit.ranks.command_line import given
from numaudit.ranks.declaration import RANK_KEYS, Declaration, Given, Placeable, Told
from numaudit.ranks.environment import kept
from numaudit.ranks.launcher import Keep, Launcher, form
from numaudit.ranks.launchers import inference, mappings, mpi, numactl, slurm, threads, training, units, wrappers

_FIRST, *_INFERENCE = inference.ROWS
LAUNCHERS: tuple[Launcher, ...] = (
    _FIRST,
    *_INFERENCE,
    *mappings.ROWS,
    numactl.ROW,
    *wrappers.ROWS,
    *training.ROWS,
    *units.ROWS,
    *slurm.ROWS,
    *mpi.ROWS,
    *threads.ROWS,
)
"""Evidence of the process itself comes before that of its ancestors, and options before variables of batch systems."""

KEYS: Mapping[str, Keep] = {
    **{key: form("[0-9]{1,7}") for key in RANK_KEYS},
    **{key: keep for row in LAUNCHERS for key, keep in row.keys.items()},
}
"""Variables that are kept of an environment, and no others."""
PROGRAMS = tuple(program for row in LAUNCHERS for program in row.programs)


def given_in(command_line: bytes) -> tuple[Given, ...]:
    """Options of the table in /proc/PID/cmdline. The rest is dropped."""
    return given(command_line, PROGRAMS)


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
