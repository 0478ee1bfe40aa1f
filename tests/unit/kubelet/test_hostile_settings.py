"""Files of the kubelet's configuration: a byte does not become hundreds in memory."""

from __future__ import annotations

import pytest

from numaudit.errors import ParseError
from numaudit.kubelet.parsers.config import LIMITS, parse_file
from processes.input_cost import MOST, costs

PIECES = {"short values": "a,", "lists": "[],", "mappings": "{},", "numbers": "1.5,", "texts": '"ab",'}


def read_file(body: bytes) -> object:
    return parse_file(body, "config.yaml")


def _filled(begin: bytes, end: bytes) -> dict[str, bytes]:
    return {what: begin + (one * (LIMITS.size // len(one) - 10)).encode() + end for what, one in PIECES.items()}


def test_a_configuration_with_more_than_a_kubelet_has_is_refused_at_little_cost() -> None:
    files = costs(read_file, _filled(b"a: [", b"0]"))
    assert {one.refusal.partition(";")[0] for one in files.values()} == {
        f"config.yaml:1: there are more than {LIMITS.values} keys and values"
    }
    assert max(one.memory for one in files.values()) < MOST * LIMITS.size


def test_a_larger_file_is_refused_unread() -> None:
    with pytest.raises(ParseError, match=f"config.yaml: the file has more than {LIMITS.size} bytes"):
        read_file(b"#" * (LIMITS.size + 1))


def test_references_are_read_as_the_kubelet_reads_them_and_a_bomb_is_refused() -> None:
    assert parse_file(b"kubeReserved: &a {memory: 1Gi}\nsystemReserved: *a\n", "config.yaml")["systemReserved"] == {
        "memory": "1Gi"
    }
    bomb = "a0: &a0 [x]\n" + "\n".join(f"a{one}: &a{one} [{f'*a{one - 1},' * 10}]" for one in range(1, 15))
    with pytest.raises(ParseError, match=r"config.yaml:4: a reference \(\*\) to a value"):
        parse_file(bomb.encode(), "config.yaml")


def test_a_configuration_of_many_nodes_is_read() -> None:
    nodes = "".join(f"- {{numaNode: {node}, limits: {{memory: 1Gi, hugepages-1Gi: 1Gi}}}}\n" for node in range(1024))
    assert len(parse_file(f"reservedMemory:\n{nodes}".encode(), "config.yaml")["reservedMemory"]) == 1024  # type: ignore[arg-type]
