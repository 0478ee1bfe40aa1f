"""Whether the PMU counts accesses here, as far as the machine's files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosts.cores import cpuinfo, host_of
from numaudit.doctor.sources import check_pmu
from numaudit.pmu.choose import CannotCount


def test_a_cpu_that_is_not_in_the_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotCount, match=r"GenuineIntel family 0x6 model 0x9e stepping 8.*numaudit capture") as caught:
        check_pmu(host_of(tmp_path, cpuinfo(0x9E), pmu=4), under_load=False)
    assert caught.value.word == "cpu-unknown"


def test_a_machine_of_one_node_has_nothing_to_count(tmp_path: Path) -> None:
    with pytest.raises(CannotCount, match="with one node all memory is local"):
        check_pmu(host_of(tmp_path, cpuinfo(0x8F), pmu=4, nodes=1), under_load=True)


def test_a_machine_without_a_pmu_says_so_whatever_its_cpu_calls_itself(tmp_path: Path) -> None:
    with pytest.raises(CannotCount, match="its hypervisor shows no PMU") as caught:
        check_pmu(host_of(tmp_path, cpuinfo(0x9E, "fpu hypervisor"), pmu=None), under_load=True)
    assert caught.value.word == "no-pmu"
