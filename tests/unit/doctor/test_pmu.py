"""Whether the PMU counts accesses here. Software events stand in for those of a CPU: every machine has them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from numaudit.doctor.pmu import _close, _count_a_load, _open, check_pmu
from numaudit.kernel.host import Host
from numaudit.pmu.choose import CannotCount, CorePmu, Cores, Plan, plans
from numaudit.pmu.families import Encoding
from numaudit.pmu.identity import CpuIdentity

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="counts events of all tasks")

SOFTWARE, PAGE_FAULTS, ALIGNMENT_FAULTS, EMULATION_FAULTS, TASK_CLOCK = 1, 2, 7, 8, 1
NO_SUCH_PMU = 9999
CORES = Cores((CpuIdentity("x86_64", "GenuineIntel", 6, 0x8F, 8),), (CorePmu("cpu", 4),), nodes=2, sockets=2)


def _plan(*configs: int) -> Plan:
    """One that counts software events, the first as local and the others as remote."""
    events = tuple(Encoding(f"software {config}", config) for config in configs)
    rest = (1,) * (len(configs) - 1)
    return replace(plans(CORES)[-1], type=SOFTWARE, groups=(events,), local=(1, *(0,) * len(rest)), remote=(0, *rest))


def _count(plan: Plan) -> None:
    cpu = min(os.sched_getaffinity(0))
    opened = _open(plan, cpu)
    try:
        _count_a_load(CORES, plan, opened, cpu)
    finally:
        _close(opened)


def _host(root: Path, kind: int, cpuinfo: str) -> Host:
    node = "sys/devices/system/node"
    files = {
        f"{node}/online": "0-1\n",
        "sys/devices/system/cpu/online": "0\n",
        "sys/bus/event_source/devices/cpu/type": f"{kind}\n",
        "proc/cpuinfo": cpuinfo,
        "proc/sys/kernel/nmi_watchdog": "1\n",
    }
    for number in range(2):
        files[f"{node}/node{number}/meminfo"] = f"Node {number} MemTotal:  1024 kB\n"
        files[f"{node}/node{number}/cpulist"] = "0\n" if number == 0 else "\n"
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Host(root)


def _cpuinfo(model: int, flags: str = "fpu") -> str:
    return f"vendor_id : GenuineIntel\ncpu family : 6\nmodel : {model}\nstepping : 8\nflags : {flags}\n"


@needs_root
def test_a_load_that_the_events_count_is_noticed() -> None:
    _count(_plan(PAGE_FAULTS, TASK_CLOCK))


@needs_root
def test_events_that_open_and_count_nothing_are_no_source() -> None:
    with pytest.raises(CannotCount, match="open, but counted nothing of a test load") as caught:
        _count(_plan(ALIGNMENT_FAULTS, EMULATION_FAULTS))
    assert caught.value.word == "counts-nothing"


@needs_root
def test_a_group_that_cannot_be_opened_leaves_no_file_open() -> None:
    before = list(Path("/proc/self/fd").iterdir())
    half = replace(_plan(PAGE_FAULTS), groups=((Encoding("opens", PAGE_FAULTS),), (Encoding("does not", 0x12A),)))
    with pytest.raises(OSError, match="perf_event_open"):
        _open(half, cpu=min(os.sched_getaffinity(0)))
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)


@needs_root
def test_a_test_load_leaves_the_thread_on_all_its_cpus() -> None:
    before = os.sched_getaffinity(0)
    _count(_plan(PAGE_FAULTS, TASK_CLOCK))
    assert os.sched_getaffinity(0) == before


@needs_root
def test_a_pmu_that_the_kernel_does_not_drive_is_absent(tmp_path: Path) -> None:
    host = _host(tmp_path, NO_SUCH_PMU, _cpuinfo(0x8F, "fpu hypervisor"))
    with pytest.raises(CannotCount, match="its hypervisor shows no PMU") as caught:
        check_pmu(host, under_load=True)
    assert caught.value.word == "no-pmu"


def test_a_cpu_that_is_not_in_the_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotCount, match=r"GenuineIntel family 0x6 model 0x9e stepping 8.*numaudit capture") as caught:
        check_pmu(_host(tmp_path, 4, _cpuinfo(0x9E)), under_load=False)
    assert caught.value.word == "cpu-unknown"
