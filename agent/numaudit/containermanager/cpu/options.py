"""The options of the static CPU Manager policy.

Source: pkg/kubelet/cm/cpumanager/policy_options.go, pkg/features.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from numaudit.containermanager.cpu.topology import CPUTopology
from numaudit.containermanager.topologymanager.policy import (
    SINGLE_NUMA_NODE,
    OptionGates,
    OptionLevels,
    bool_option,
    option_level,
)
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.encoding.go_syntax import quote
from numaudit.errors import InputError


class CPUOptions(Struct, frozen=True):
    """The `cpuManagerPolicyOptions` in force."""

    full_pcpus_only: bool = False
    distribute_cpus_across_numa: bool = False
    align_by_socket: bool = False
    distribute_cpus_across_cores: bool = False
    strict_cpu_reservation: bool = False
    prefer_align_cpus_by_uncorecache: bool = False


FULL_PCPUS = "full-pcpus-only"
ACROSS_NUMA = "distribute-cpus-across-numa"
BY_SOCKET = "align-by-socket"
ACROSS_CORES = "distribute-cpus-across-cores"
STRICT = "strict-cpu-reservation"
BY_UNCORE = "prefer-align-cpus-by-uncorecache"

_LEVELS: OptionLevels = {
    FULL_PCPUS: {(1, 22): "alpha", (1, 23): "beta", (1, 36): "stable"},
    ACROSS_NUMA: {(1, 23): "alpha", (1, 36): "beta"},
    BY_SOCKET: {(1, 25): "alpha"},
    ACROSS_CORES: {(1, 32): "alpha"},
    STRICT: {(1, 32): "alpha", (1, 36): "stable"},
    BY_UNCORE: {(1, 32): "alpha", (1, 36): "stable"},
}

_CONFLICTS: Mapping[KubernetesVersion, tuple[tuple[str, str], ...]] = {
    (1, 32): ((FULL_PCPUS, ACROSS_CORES), (ACROSS_NUMA, ACROSS_CORES)),
    (1, 36): ((BY_UNCORE, ACROSS_CORES), (BY_UNCORE, ACROSS_NUMA)),
}
"""Since when -> options that exclude each other."""


def parse_cpu_options(
    options: Mapping[str, str],
    *,
    gates: OptionGates = OptionGates(),  # noqa: B008 -- an immutable value
    version: KubernetesVersion = LATEST,
) -> CPUOptions:
    """Read `cpuManagerPolicyOptions`; raises InputError with the kubelet's text.

    Where several options are wrong the kubelet names any one of them; here it is the first.
    """
    values: dict[str, bool] = {}
    for name, value in options.items():
        _check_available(name, gates, version)
        values[name.replace("-", "_")] = bool_option(name, value)
    return CPUOptions(**values)


def check_cpu_options(
    options: CPUOptions, topology: CPUTopology, *, topology_manager_policy: str, version: KubernetesVersion = LATEST
) -> None:
    """Raise InputError when options exclude each other, the Topology Manager's policy or the machine."""
    for since, pairs in _CONFLICTS.items():
        for one, other in pairs if version >= since else ():
            if _is_on(options, one) and _is_on(options, other):
                raise InputError(f"static policy options {one} and {other} can not be used at the same time")
    if options.align_by_socket:
        if topology_manager_policy == SINGLE_NUMA_NODE:
            raise InputError(
                "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
            )
        if topology.num_sockets > topology.num_numa_nodes:
            raise InputError(
                "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
            )


def _is_on(options: CPUOptions, name: str) -> bool:
    return bool(getattr(options, name.replace("-", "_")))


def _check_available(name: str, gates: OptionGates, version: KubernetesVersion) -> None:
    level = option_level("CPU", name, _LEVELS, version)
    if not gates.open(level):
        raise InputError(
            f"CPU Manager Policy {level.capitalize()}-level Options not enabled, but option {quote(name)} provided"
        )
