"""JSON documents: valid by their schema, whole, and well-formed whatever names a host has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documentation.schemas import KINDS, schema, validator
from fixture_trees import FIXTURES
from numaudit.api.document import API_VERSION, encode
from numaudit.cli.main import call
from numaudit.doctor.checks import examine
from numaudit.doctor.outcome import doctor
from numaudit.encoding.value import Origin, Timestamp
from numaudit.kernel.host import Host
from numaudit.snapshot import Check
from numaudit.topology.nodeset import CpuSet, NodeSet

CapturedHost = Callable[[str], Host]
ORIGIN = Origin("node-1", Timestamp(1_700_000_200.25))
HOSTS = sorted(sys.parent.name for sys in FIXTURES.glob("*/sys"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_schema_is_a_schema_that_demands_its_marks(kind: str) -> None:
    assert not validator(kind).is_valid({})
    properties = schema(kind)["properties"]
    assert properties["apiVersion"]["const"] == API_VERSION
    assert properties["kind"]["const"] == kind


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize(("verb", "kind"), [("report", "Report"), ("topology", "Topology"), ("doctor", "Doctor")])
def test_a_document_is_valid_by_its_schema(
    capsys: pytest.CaptureFixture[str], fixtures: Path, name: str, verb: str, kind: str
) -> None:
    assert call([verb, "--root", str(fixtures / name), "-o", "json"]) in ((0, 1) if verb == "doctor" else (0,))
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    validator(kind).validate(found)
    assert set(found) == set(schema(kind)["properties"])
    without = {key: value for key, value in found.items() if key != "kind"}
    assert not validator(kind).is_valid(without)
    assert not validator(kind).is_valid({**found, "kind": "Other"})


def test_a_document_ends_its_last_line(captured: CapturedHost) -> None:
    text = encode("Doctor", doctor(examine(captured("eight-nodes"))), ORIGIN)
    head = b'{\n  "apiVersion": "numaudit/v1",\n  "kind": "Doctor",\n  "host": "node-1",\n  "generator": {\n'
    assert text.startswith(head)
    assert text.endswith(b"}\n")


def test_nodes_are_a_list_cpus_are_in_the_kernels_list_format_and_times_are_in_utc() -> None:
    found = json.loads(encode("Doctor", {"nodes": NodeSet.of(0, 1, 3), "cpus": CpuSet.of(0, 1, 3)}, ORIGIN))
    assert (found["nodes"], found["cpus"]) == ([0, 1, 3], "0-1,3")
    assert (found["host"], found["takenAt"]) == ("node-1", "2023-11-14T22:16:40.250Z")


def test_a_value_that_no_document_shows_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="no document shows a _Host"):
        encode("Doctor", {"host": _Host()}, ORIGIN)


class _Host:
    """Made up: msgspec knows no way to show it."""


@given(st.text(max_size=40) | st.text("ab é\n\x00\udcff\ud800", max_size=40))
def test_any_name_makes_a_well_formed_document(name: str) -> None:
    text = encode("Doctor", doctor([Check(name, "ok", name)]), ORIGIN).decode("utf-8")
    (check,) = json.loads(text)["checks"]
    assert check["name"] == check["detail"] == name.encode("utf-8", "backslashreplace").decode()
