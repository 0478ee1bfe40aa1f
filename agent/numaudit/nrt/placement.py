"""Placement of containers on single NUMA nodes, in the form of numaplacement: a vector of text for each node.

Containers are ordered by their hashes. A node's vector has the places of its containers in that order, each as the
distance from the one before. The busiest node has none: it holds all that are in no vector.

Source: github.com/k8stopologyawareschedwg/numaplacement (npv0v001), pre-alpha.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from xxhash import xxh64_intdigest

ContainerName = tuple[str, str, str]
"""Namespace, pod, container."""

_ALPHABET = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"&<>\\')
_TERMINALS = 64
_CONTINUATIONS = len(_ALPHABET) - _TERMINALS


class Placement(NamedTuple):
    """Metadata of the node, and the vectors."""

    metadata: str
    """npv0v001::ve=leb89::cc=<containers>::nn=<nodes>::bn=<busiest node>"""
    vectors: Mapping[int, str]
    """NUMA node -> vector, of all nodes but the busiest."""


def placement(node_of: Mapping[ContainerName, int], nodes: Iterable[int]) -> Placement:
    """Placement of these containers on the machine's nodes; of equally busy ones the first has no vector."""
    in_order = [node_of[name] for name in sorted(node_of, key=_hash)]
    places = {node: [place for place, on in enumerate(in_order) if on == node] for node in sorted(nodes)}
    busiest = max(places, key=lambda node: (len(places[node]), -node))
    return Placement(
        f"npv0v001::ve=leb89::cc={len(in_order)}::nn={len(places)}::bn={busiest}",
        {node: "".join(_deltas(own)) for node, own in places.items() if node != busiest},
    )


def _hash(name: ContainerName) -> tuple[int, ContainerName]:
    return xxh64_intdigest("\0".join(name).encode()), name


def _deltas(places: Iterable[int]) -> Iterator[str]:
    before = 0
    for place in places:
        yield leb89(place - before)
        before = place


def leb89(number: int) -> str:
    """A number from 0 on: one character up to 63, else base 25, most significant first, and a last of base 64."""
    if number < _TERMINALS:
        return _ALPHABET[number]
    rest, last = divmod(number - _TERMINALS, _TERMINALS)
    digits = [_ALPHABET[last]]
    while True:
        rest, digit = divmod(rest, _CONTINUATIONS)
        digits.append(_ALPHABET[_TERMINALS + digit])
        if not rest:
            return "".join(reversed(digits))
