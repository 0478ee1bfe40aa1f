"""What it costs to read an input: by the peak of a process of its own, over what it had before."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from numaudit.errors import NumauditError, ParseError

MIB = 1 << 20
MOST = 10
"""Bytes of memory for each byte of the largest input."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one input."""

    memory: int
    """Bytes, at the peak."""
    seconds: float
    """Of CPU time."""
    refusal: str
    """Empty = it was read."""


def costs(read: Callable[[bytes], object], inputs: Mapping[str, bytes]) -> dict[str, Cost]:
    """Read each input in a process of its own. `read` is a function of a module; what it imports is not counted."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        return child.submit(_costs, read, inputs).result()


def _costs(read: Callable[[bytes], object], inputs: Mapping[str, bytes]) -> dict[str, Cost]:
    """A process that was spawned has no threads, so it may fork."""
    with suppress(NumauditError, ParseError):
        read(b"")
    found = {}
    for name, body in inputs.items():
        with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as child:
            found[name] = child.submit(_cost, read, body).result()
    return found


def _cost(read: Callable[[bytes], object], body: bytes) -> Cost:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now the present size
    before, begun = _status("VmRSS"), time.process_time()
    refusal = ""
    try:
        kept = read(body)  # noqa: F841 (it is part of the cost)
    except (NumauditError, ParseError) as error:
        refusal = str(error)
    return Cost(_status("VmHWM") - before, time.process_time() - begun, refusal)


def _status(field: str) -> int:
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(f"{field}:"))
    return int(line.split()[1]) << 10
