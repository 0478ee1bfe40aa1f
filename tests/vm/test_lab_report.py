"""What `make lab` runs beside its workloads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab import REPORT


@pytest.mark.parametrize(("codes", "shown", "code"), [((0, 1), 1, 0), ((3, 0), 2, 0), ((4, 0), 1, 4), ((3, 2), 2, 2)])
def test_the_lab_shows_where_memory_is_when_nothing_can_be_measured(
    tmp_path: Path, codes: tuple[int, int], shown: int, code: int
) -> None:
    measured, plain = codes
    program = tmp_path / "program"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/called\n[ "$2" = --duration ] && exit {measured}\nexit {plain}\n'
    )
    program.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", REPORT, "report", str(program)], capture_output=True, text=True, check=False
    )
    called = (tmp_path / "called").read_text().splitlines()
    assert called == ["report --duration 5s", "report"][:shown]
    assert done.returncode == code
