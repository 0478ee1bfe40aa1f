"""The costs that `make bench` measured last, with the machine, the day and the version: costs.json."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numaudit import __version__

FILE = Path(__file__).with_name("costs.json")


class Cost(NamedTuple):
    """One figure."""

    per: str
    what: str
    value: float
    unit: str


def write(costs: Mapping[str, Sequence[Cost]], file: Path = FILE) -> None:
    """Those of some benchmarks; the others' stay, with the conditions under which they were measured."""
    if not costs:
        return
    known = read(file) if file.exists() else {}
    known |= {bench: {**_conditions(), "costs": [one._asdict() for one in found]} for bench, found in costs.items()}
    file.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")


def read(file: Path = FILE) -> dict[str, Any]:
    """Benchmark -> its conditions and its costs."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _conditions() -> dict[str, Any]:
    cpus = os.cpu_count() or 1
    return {
        "machine": f"{_cpu_model()}, {cpus} CPUs{_virtual()}, Linux {'.'.join(platform.release().split('.')[:2])}",
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "version": __version__,
        "loadPerCpu": round(os.getloadavg()[2] / cpus, 1),
    }


def _cpu_model() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else platform.machine()


def _virtual() -> str:
    return (
        ", virtual" if re.search(r"^flags\s*:.* hypervisor\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE) else ""
    )
