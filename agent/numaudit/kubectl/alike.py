"""Are the nodes of a pool set up alike? Facts of each node in, differences out. Pure.

Most nodes are the reference: nobody is wrong, but some are unlike the others. What is not known of a node is not
compared.
"""

from __future__ import annotations

from bisect import bisect_left as _below
from bisect import bisect_right as _up_to
from collections import defaultdict
from collections.abc import Mapping, Sequence

from numaudit.api.cluster_document import NodeGroup, UnlikeSetting, UnlikeValue
from numaudit.evaluation.setup.facts import KERNEL, KUBELET, MEMORY, SetupFact

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
AGENT = "numaudit version"
_VERSIONS = (KUBELET, KERNEL, AGENT)
_Values = Mapping[str, str | int]
"""Node -> its value."""
_Classes = list[tuple[str | int, list[str]]]
"""Values and the nodes that have them, the commonest first."""
_Key = tuple[str, int | None]


def compare(nodes: Mapping[str, Sequence[SetupFact]], labels: Mapping[str, str | None]) -> list[NodeGroup]:
    """`nodes`: node -> its facts; `labels`: node -> its value of the label. By that value."""
    groups: defaultdict[str | None, list[str]] = defaultdict(list)
    for name in sorted(nodes):
        groups[labels.get(name)].append(name)
    return [
        _group(value, {name: nodes[name] for name in groups[value]})
        for value in sorted(groups, key=lambda one: (one is None, one or ""))
    ]


def _group(label: str | None, nodes: Mapping[str, Sequence[SetupFact]]) -> NodeGroup:
    by_key: dict[_Key, dict[str, str | int | None]] = {}
    for node, facts in nodes.items():
        for one in facts:
            by_key.setdefault((one.name, one.numa_node), {})[node] = one.value
    found, unknown = [], defaultdict[str, list[str]](list)
    for (name, numa_node), values in by_key.items():
        known = {node: value for node, value in values.items() if value is not None}
        difference = _difference(name, numa_node, known)
        found += [] if difference is None else [difference]
        for node in values.keys() - known.keys() if known else ():
            unknown[node].append(_in_words(name, numa_node))
    return NodeGroup(
        label_value=label,
        names=list(nodes),
        unlike=[one for one in found if one.name not in _VERSIONS],
        versions=[one for one in found if one.name in _VERSIONS],
        unknown={node: unknown[node] for node in sorted(unknown)},
    )


def _difference(name: str, numa_node: int | None, values: _Values) -> UnlikeSetting | None:
    """None = the values are alike."""
    classes = _near(values) if name == MEMORY else _same(values)
    if len(classes) < 2:
        return None
    value, nodes = classes[0]
    has_majority = 2 * len(nodes) > len(values)
    return UnlikeSetting(
        name=name,
        numa_node=numa_node,
        majority=value if has_majority else None,
        unlike=[UnlikeValue(*one) for one in classes[has_majority:]],
    )


def _same(values: _Values) -> _Classes:
    found: dict[str | int, list[str]] = {}
    for node, value in values.items():
        found.setdefault(value, []).append(node)
    return sorted(found.items(), key=lambda one: (-len(one[1]), str(one[0])))


def _near(values: _Values) -> _Classes:
    """Bytes that differ by a hundredth at most are alike: the kernel takes a part of each node at boot."""
    found: _Classes = []
    left = {node: value for node, value in values.items() if isinstance(value, int)}
    while left:
        ordered = sorted(left.values())
        value = max(ordered, key=lambda one: _up_to(ordered, _most(one)) - _below(ordered, _least(one)))
        nodes = [node for node, size in left.items() if _least(value) <= size <= _most(value)]
        found.append((value, nodes))
        for node in nodes:
            del left[node]
    return found


def _most(size: int) -> int:
    return size + size // 100


def _least(size: int) -> int:
    """Of which `size` is at most a hundredth more."""
    return -(-100 * size // 101)


def _in_words(name: str, numa_node: int | None) -> str:
    return name if numa_node is None else f"{name} of node {numa_node}"


def unlike_nodes(group: NodeGroup) -> list[str]:
    """Those that differ from most nodes in something; all of them where there is no majority."""
    return sorted({node for one in group.unlike for value in one.unlike for node in value.names})
