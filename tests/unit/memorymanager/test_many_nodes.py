"""Machines on which a kubelet has no answer: node ids that its masks do not hold, and too many nodes."""

from __future__ import annotations

import pytest

from numaudit.containermanager.topologymanager.hints import candidate_masks, merge
from numaudit.errors import InputError
from numaudit.topology.nodeset import NodeSet


def test_a_mask_holds_node_63_and_no_larger_id() -> None:
    assert len(candidate_masks(NodeSet.of(0, 63))) == 3
    with pytest.raises(InputError, match=r"cannot tell: this machine has node 64.* ids up to 63 only"):
        candidate_masks(NodeSet.of(0, 64))


def test_a_kubelet_crashes_at_any_pod_on_such_a_machine_unless_its_policy_is_none() -> None:
    nodes = NodeSet.parse("0,8,250-255")
    for policy in ("best-effort", "restricted", "single-numa-node"):
        with pytest.raises(InputError, match="this machine has nodes 250-255"):
            merge([], policy=policy, nodes=nodes)
    assert merge([], policy="none", nodes=nodes).admit


def test_sixteen_nodes_are_tried_and_of_more_it_is_said_that_a_kubelet_does_not_end() -> None:
    assert len(candidate_masks(NodeSet.from_ids(range(16)))) == (1 << 16) - 1
    with pytest.raises(InputError, match=r"all 2\^34 sets .* never ends the admission.*#135541"):
        candidate_masks(NodeSet.from_ids(range(34)))
    with pytest.raises(InputError, match=r"all 2\^17 sets .* at most 16"):
        candidate_masks(NodeSet.from_ids(range(17)))
