"""Configuration of the Topology Manager: policy, scope, options; and the refusals of the managers that it asks.

Source: pkg/kubelet/cm/topologymanager/{topology_manager,policy_options}.go, pkg/kubelet/cm/admission/errors.go,
pkg/features.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.encoding.go_syntax import GoSyntaxError, atoi, parse_bool, quote
from numaudit.errors import InputError, NumauditError, nearest

TOPOLOGY_AFFINITY_ERROR = "TopologyAffinityError"
UNEXPECTED = "UnexpectedAdmissionError"
SMT_ALIGNMENT = "SMTAlignmentError"
EMPTY_POD_SHARED_POOL = "EmptyPodSharedPoolError"


class AdmissionError(NumauditError):
    """A provider's Allocate failed: the kubelet's text, and the reason of the pod's status.

    Only texts under UNEXPECTED are wrapped ("Allocate failed due to ..., which is unexpected")
    before a user sees them; the others are the pod's message as they are.
    """

    def __init__(self, text: str, reason: str = UNEXPECTED) -> None:
        super().__init__(text)
        self.reason = reason

    @property
    def message(self) -> str:
        """The message in the pod's status."""
        text = str(self)
        return f"Allocate failed due to {text}, which is unexpected" if self.reason == UNEXPECTED else text


class KubeletHangs(NumauditError):
    """A request from which a real kubelet never returns, so that there is no answer to give."""


NONE = "none"
BEST_EFFORT = "best-effort"
RESTRICTED = "restricted"
SINGLE_NUMA_NODE = "single-numa-node"
POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)

CONTAINER_SCOPE = "container"
POD_SCOPE = "pod"

PREFER_CLOSEST = "prefer-closest-numa-nodes"
MAX_ALLOWABLE = "max-allowable-numa-nodes"
DEFAULT_MAX_NODES = 8

OptionLevels = Mapping[str, Mapping[KubernetesVersion, str]]
"""Option -> since which of the versions described here -> how ripe it is."""
_LEVELS: OptionLevels = {
    PREFER_CLOSEST: {(1, 26): "alpha", (1, 28): "beta", (1, 32): "stable"},
    MAX_ALLOWABLE: {(1, 31): "beta", (1, 35): "stable"},
}

Distances = Mapping[int, Mapping[int, int]]
"""SLIT: from node -> to node -> relative distance, 10 = local."""


class TopologyOptions(Struct, frozen=True):
    """The `topologyManagerPolicyOptions` in force."""

    prefer_closest_numa_nodes: bool = False
    max_allowable_numa_nodes: int = DEFAULT_MAX_NODES


class OptionGates(Struct, frozen=True):
    """The two feature gates that open the options that are not stable yet, of either manager.

    `TopologyManagerPolicyAlphaOptions` and `...BetaOptions`, or `CPUManagerPolicyAlphaOptions` and
    `...BetaOptions`; the values here are the kubelet's defaults.
    """

    alpha: bool = False
    beta: bool = True

    def allow(self, level: str) -> bool:
        """May options of this maturity be given?"""
        return {"alpha": self.alpha, "beta": self.beta}.get(level, True)


_BY_DEFAULT = OptionGates()


class TopologyManager(Struct, frozen=True):
    """A Topology Manager that the kubelet would start with."""

    policy: str
    scope: str
    options: TopologyOptions


def create_topology_manager(
    policy: str,
    scope: str,
    options: Mapping[str, str],
    *,
    nodes: int,
    distances: Distances | None = None,
    gates: OptionGates = _BY_DEFAULT,
    version: KubernetesVersion = LATEST,
) -> TopologyManager:
    """Check a Topology Manager's configuration as the kubelet does, with the kubelet's words.

    `nodes` is the number of NUMA nodes of the machine. The order of checks is options, distances,
    number of nodes, policy, scope; policy none ignores everything else and has scope none.
    Where several options are wrong the kubelet names any one of them; here it is the first.
    Raises InputError.
    """
    if policy == NONE:
        return TopologyManager(NONE, NONE, TopologyOptions())
    parsed = parse_options(options, gates=gates, version=version)
    if parsed.prefer_closest_numa_nodes and not distances:
        raise InputError("cannot discover NUMA topology: error getting NUMA distances from cadvisor")
    if nodes > parsed.max_allowable_numa_nodes:
        raise InputError(f"unsupported on machines with more than {parsed.max_allowable_numa_nodes} NUMA Nodes")
    if policy not in POLICIES:
        raise InputError(f"unknown policy: {quote(policy)}{nearest(policy, POLICIES)}")
    if scope not in (CONTAINER_SCOPE, POD_SCOPE):
        raise InputError(f"unknown scope: {quote(scope)}{nearest(scope, (CONTAINER_SCOPE, POD_SCOPE))}")
    return TopologyManager(policy, scope, parsed)


def parse_options(
    options: Mapping[str, str],
    *,
    gates: OptionGates = _BY_DEFAULT,
    version: KubernetesVersion = LATEST,
) -> TopologyOptions:
    """Read `topologyManagerPolicyOptions`; raises InputError with the kubelet's text."""
    prefer_closest, max_nodes = False, DEFAULT_MAX_NODES
    for name, value in options.items():
        _check_available(name, gates, version)
        if name == PREFER_CLOSEST:
            prefer_closest = bool_option(name, value)
        else:
            max_nodes = _max_nodes(name, value)
    return TopologyOptions(prefer_closest, max_nodes)


def bool_option(name: str, value: str) -> bool:
    """A policy option's value; raises InputError with the kubelet's text."""
    try:
        return parse_bool(value)
    except GoSyntaxError as error:
        raise InputError(f"bad value for option {quote(name)}: {error}") from None


def _max_nodes(name: str, value: str) -> int:
    try:
        number = atoi(value)
    except GoSyntaxError as error:
        raise InputError(f"unable to convert policy option to integer {quote(name)}: {error}") from None
    if number < DEFAULT_MAX_NODES:
        raise InputError(f"the minimum value of {quote(name)} should not be less than {DEFAULT_MAX_NODES}")
    return number


def _check_available(name: str, gates: OptionGates, version: KubernetesVersion) -> None:
    level = option_level("Topology", name, _LEVELS, version)
    if not gates.allow(level):
        # 1.32 rewrote only the text about alpha options.
        if version < (1, 32) or (level == "beta" and version < (1, 33)):
            raise InputError(
                f"Topology Manager Policy {level.capitalize()}-level Options not enabled, "
                f"but option {quote(name)} provided"
            )
        raise InputError(
            f"topology manager policy {level}-level options not enabled, but option {quote(name)} provided"
        )


def option_level(manager: str, name: str, levels: OptionLevels, version: KubernetesVersion) -> str:
    """Maturity of a policy option in a version. Raises InputError with the kubelet's text for one that it lacks."""
    reached = [level for since, level in levels.get(name, {}).items() if version >= since]
    if not reached:
        known = [one for one, steps in levels.items() if version >= min(steps)]
        raise InputError(f"unknown {manager} Manager Policy option: {quote(name)}{nearest(name, known)}")
    return reached[-1]
