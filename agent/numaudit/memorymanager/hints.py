"""Topology hints and how the Topology Manager merges them.

Source: pkg/kubelet/cm/topologymanager/{topology_manager,policy*}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numaudit.topology.nodeset import NodeSet


@dataclass(frozen=True, slots=True)
class TopologyHint:
    """One candidate of a provider. `affinity` None = any node."""

    affinity: NodeSet | None
    preferred: bool


ProviderHints = Mapping[str, Sequence[TopologyHint] | None] | None
"""A provider's answer by resource. The shapes differ in meaning: None or {} = no preference at all;
{r: None} = no preference for r; {r: []} = impossible; {r: [...]} = these."""
