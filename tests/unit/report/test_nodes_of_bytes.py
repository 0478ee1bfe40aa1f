"""Bytes by type and node, as rows of one node each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from numaudit.report.nodes import by_node
from numaudit.report.values import NodeBytes
from numaudit.snapshot import Resident

TYPES = NodeBytes.__struct_fields__[1:]
SIZES = st.dictionaries(st.integers(0, 3), st.integers(0, 9), max_size=4)
ALIKE = st.permutations([0, 1, 2]).map(lambda nodes: dict.fromkeys(nodes, 7))


@given(st.fixed_dictionaries(dict.fromkeys(TYPES, st.none() | SIZES | ALIKE)), st.sets(st.integers(0, 3), max_size=1))
def test_every_node_that_any_type_names_has_a_row_and_a_type_that_is_not_known_stays_unknown(
    columns: dict[str, dict[int, int] | None], always: set[int]
) -> None:
    nodes = sorted(always.union(*[by for by in columns.values() if by]))
    expected = [
        NodeBytes(node, **{kind: None if by is None else by.get(node, 0) for kind, by in columns.items()})
        for node in nodes
    ]
    assert by_node(structs.replace(Resident(), **columns), always) == tuple(expected)
