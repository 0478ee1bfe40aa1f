"""Hardware that numaudit finds and does not read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from numaudit.doctor.sources import Unread, data_sources, fabric, memory_bandwidth
from numaudit.kernel.host import Host

DEVICES = "sys/bus/event_source/devices"
FLAGS = "vendor_id : {}\nflags : fpu cqm_mbm_total cqm_mbm_local\n"
MONITORING = "sys/fs/resctrl/info/L3_MON/{}"


def _host(root: Path, files: dict[str, str]) -> Host:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Host(root)


def _said(find: Callable[[Host], Unread], host: Host) -> tuple[str | None, str]:
    found = find(host).check("access x")
    return found.reason, found.detail


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("cpu/events/mem-loads", "cpu/mem-loads"),
        ("ibs_op/type", "ibs_op"),
        ("arm_spe_0/type", "arm_spe_0"),
    ],
)
def test_precise_samples_are_found(tmp_path: Path, device: str, said: str) -> None:
    host = _host(tmp_path, {f"{DEVICES}/cpu/type": "4\n", f"{DEVICES}/{device}": "1\n"})
    assert _said(data_sources, host) == ("not-read", f"found: {said}; numaudit does not read it")


def test_a_machine_without_precise_samples_says_so(tmp_path: Path) -> None:
    word, text = _said(data_sources, _host(tmp_path, {f"{DEVICES}/cpu/type": "4\n"}))
    assert word == "no-hardware"
    assert "ibs_op" in text


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (["uncore_upi_0", "uncore_upi_1", "uncore_cha_10", "uncore_imc_0"], "uncore_cha, uncore_upi"),
        (["amd_df", "amd_l3"], "amd_df"),
        (["hisi_sccl1_hha0", "hisi_sccl3_hha1", "hisi_sccl1_ddrc0"], "hisi_hha"),
        (["nvidia_scf_pmu_0"], "nvidia_scf_pmu"),
    ],
)
def test_counters_of_links_are_found_each_kind_once(tmp_path: Path, devices: list[str], said: str) -> None:
    host = _host(tmp_path, {f"{DEVICES}/{name}/type": "9\n" for name in devices})
    assert _said(fabric, host) == ("not-read", f"found: {said}; numaudit does not read it")


def test_a_machine_without_counters_of_links_says_so(tmp_path: Path) -> None:
    assert _said(fabric, _host(tmp_path, {f"{DEVICES}/software/type": "1\n"}))[0] == "no-hardware"


@pytest.mark.parametrize(
    ("vendor", "config", "said"),
    [
        ("GenuineIntel", None, "total - local is the remote part"),
        ("AuthenticAMD", None, "total - local is not the remote part"),
        ("AuthenticAMD", "0=0x7f\n", "total - local is not the remote part"),
        ("AuthenticAMD", "0=0x3f;1=0x7f\n", "total - local is not the remote part"),
        ("AuthenticAMD", "0=0x3f;1=0x2a\n", "total - local is the remote part"),
        ("AuthenticAMD", "not understood\n", "total - local is not the remote part"),
        ("HygonGenuine", "0=0x3f\n", "total - local is not the remote part"),
    ],
)
def test_bandwidth_monitoring_says_whether_it_would_give_the_remote_part(
    tmp_path: Path, vendor: str, config: str | None, said: str
) -> None:
    files = {"proc/cpuinfo": FLAGS.format(vendor), MONITORING.format("num_rmids"): "176\n"}
    if config is not None:
        files[MONITORING.format("mbm_total_bytes_config")] = config
    word, text = _said(memory_bandwidth, _host(tmp_path, files))
    assert word == "not-read"
    assert said in text


def test_bandwidth_monitoring_that_is_not_mounted_is_found(tmp_path: Path) -> None:
    word, text = _said(memory_bandwidth, _host(tmp_path, {"proc/cpuinfo": FLAGS.format("GenuineIntel")}))
    assert word == "not-read"
    assert "resctrl is not mounted" in text


def test_a_cpu_without_bandwidth_monitoring_says_so(tmp_path: Path) -> None:
    assert _said(memory_bandwidth, _host(tmp_path, {"proc/cpuinfo": "flags : fpu\n"}))[0] == "no-hardware"
