"""Pages of 1 GiB: the pool, the container and the process, each read by itself, on a machine that has one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from numaudit.cli.main import call
from workload import MIB, cgroup, worker

Json = dict[str, Any]
Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.bare
GIB = 1024 * MIB
POOL = Path("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB")


def _answer(capsys: Capture, *words: str) -> Json:
    assert call([*words, "-o", "json"]) == 0
    found: Json = json.loads(capsys.readouterr().out)
    return found


def _pool(capsys: Capture) -> Json:
    """The pool of node 1 as `topology` shows it."""
    (node,) = [one for one in _answer(capsys, "topology")["nodes"] if one["numaNode"] == 1]
    (pool,) = [one for one in node["hugePages"] if one["pageSizeBytes"] == GIB]
    return dict(pool)


def test_a_page_of_a_gibibyte_is_one_in_the_pool_the_container_and_the_process(capsys: Capture) -> None:
    """The kernel took the page at its start: later no aligned GiB may be free."""
    free = _pool(capsys)
    assert (free["total"], free["free"]) == (1, 1)
    with cgroup("numaudit-lab/gigantic", mems="1") as group, worker(group, GIB, kind="gigantic") as held:
        maps = Path(f"/proc/{held.process.pid}/numa_maps").read_text()
        (line,) = [one for one in maps.splitlines() if "kernelpagesize_kB=1048576" in one]
        assert re.findall(r"\bN(\d)=(\d+)", line) == [("1", "1")]
        assert (POOL / "free_hugepages").read_text() == "0\n"
        (row,) = _answer(capsys, "report", "/numaudit-lab/gigantic")["containers"]
        (size,) = [one for one in row["hugePages"] if any(one["bytes"].values())]
        assert size["type"] == "hugepages-1Gi"
        assert size["bytes"] == {"0": 0, "1": GIB}
        resident = {one["numaNode"]: one["hugetlbBytes"] for one in row["resident"]}
        assert resident == {0: 0, 1: GIB}
        assert _pool(capsys) == {**free, "free": 0}
    assert _pool(capsys) == free
