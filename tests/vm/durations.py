"""How long each module of inside/ takes: guests that share them begin with the longest, so that all end together."""

from __future__ import annotations

from collections.abc import Mapping

SECONDS: Mapping[str, int] = {
    "test_access": 330,
    "test_page_truth": 140,
    "test_confined_guest": 155,
    "test_ranks": 50,
    "test_remedies": 70,
    "test_agent": 65,
    "test_access_hooks": 65,
    "test_kernel_evidence": 55,
    "test_assert": 45,
    "test_counted_events": 45,
    "test_run": 45,
    "test_run_faults": 45,
    "test_calibrate": 35,
    "test_systemd_unit": 35,
    "test_image_here": 30,
    "test_for_people": 30,
    "test_many_processes": 30,
    "test_pages_by_process": 30,
    "test_pmu": 30,
    "test_remedies_of_commands": 30,
    "test_remedies_of_use": 30,
    "test_rights": 30,
    "test_whole_report": 30,
    "test_tiers": 40,
    "test_a_node_without_memory": 20,
    "test_lab": 20,
    "test_shared_memory": 20,
    "test_short_lived": 15,
    "test_cpu_launchers": 10,
    "test_memory_launchers": 15,
    "test_slurm_ranks": 10,
    "test_devices": 20,
    "test_dra_claims": 10,
    "test_process_view": 15,
    "test_verdicts": 20,
    "test_gigantic_pages": 5,
    "test_moved_memory": 5,
    "test_pmu_trial": 5,
}
"""About, on Linux 6.12 and a host with two busy CPUs; `pytest tests/vm/test_guest.py --durations=0` shows tests."""


def of_module(name: str) -> int:
    """A new one may be long: nobody should wait for it at the end."""
    return SECONDS.get(name, max(SECONDS.values()))
