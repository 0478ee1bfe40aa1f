"""The JSON Schemas of the documents, from their types: tests validate by them, and docs/schema.json has them.

A field's description is the text below it in its type.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from numaudit.api import explanation_document, simulation_document, state_document
from numaudit.api.cluster_document import ClusterReport, NodeAnswerList, NodeComparison
from numaudit.api.document import API_VERSION, Capture, Config, ConfigCheck, Doctor, Header, SelfTest, Topology
from numaudit.api.placement_document import PlacementList
from numaudit.api.ranks_document import HostRanks
from numaudit.encoding.value import Timestamp
from numaudit.evaluation.setup.rule import Setup
from numaudit.memorymanager.forecast import Forecast
from numaudit.pmu.calibration import Calibration
from numaudit.report.gates import Assertion
from numaudit.report.memory_manager import MemoryManagerReport
from numaudit.report.values import Report
from numaudit.topology.nodeset import CpuSet, NodeSet

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

KINDS: dict[str, type] = {
    "Report": Report,
    "Ranks": HostRanks,
    "Setup": Setup,
    "Topology": Topology,
    "Doctor": Doctor,
    "SelfTest": SelfTest,
    "Calibration": Calibration,
    "State": state_document.DecodedState,
    "StateList": state_document.DecodedStateList,
    "StateVerification": state_document.StateVerification,
    "StateVerificationList": state_document.StateVerificationList,
    "StateDifference": state_document.StateDifference,
    "RestartForecast": Forecast,
    "Headroom": MemoryManagerReport,
    "Explanation": explanation_document.Explanation,
    "ExplanationList": explanation_document.ExplanationList,
    "PlacementList": PlacementList,
    "Simulation": simulation_document.Simulation,
    "ClusterReport": ClusterReport,
    "NodeAnswerList": NodeAnswerList,
    "NodeComparison": NodeComparison,
    "Config": Config,
    "ConfigCheck": ConfigCheck,
    "Capture": Capture,
    "Assertion": Assertion,
}
"""Kind of document -> the value that it shows."""

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ID = "https://numaudit.example/schemas/v1"
"""An identifier, where nothing is to be had."""
_HERE = "#/$defs/"
_WORDS = {
    "numa_node": "Id of the NUMA node.",
    "cpu_numa_node": "Id of the NUMA node of the CPU.",
    "from_numa_node": "Id of the NUMA node that it was on.",
    "to_numa_node": "Id of the NUMA node that it went, or was to go, to.",
    "namespace": "The pod's namespace; null = of no pod, or not known.",
    "pod": "The pod's name; null = of no pod, or not known.",
    "container": "The container's name; null = of no container, or not known.",
    "pod_uid": "The pod's UID; null = of no pod, or not known.",
    "bytes": "The amount in bytes.",
    "findings": "What was found, the most important first.",
    "starts_now": "Does the kubelet start with it as things are?",
    "starts_after_reboot": "Does the kubelet start with it once the node has booted again?",
    "policy_name": "The policy that the file names; null = it names none, or was not read.",
    "notices": "What a reader must know of the answer.",
    "misplaced_bytes": "Judged bytes on nodes that were not promised.",
    "node": "The Kubernetes node.",
    "items": "Each of them.",
    "admitted": "Is it admitted?",
    "outcome": "Outcome of its hints.",
    "sentence": "The reason, in one sentence.",
    "reason": "The kubelet's reason for a refusal; null = it refused nothing.",
    "message": "The kubelet's words for a refusal; null = it refused nothing.",
    "containers": "Container -> what it gets.",
    "admitting_changes": "Changes that would let it in, or align it, the smallest first.",
    "pid": "Process id.",
    "process": "Name of the process; null = not known.",
    "type": "The resource: memory, hugepages-2Mi, ...",
    "page_size_bytes": "Size of a page.",
    "failed_bytes": "Bytes that could not be moved.",
    "node_count": "Number of NUMA nodes.",
    "source": "The source of accesses.",
    "cpus": "Its online CPUs; null = not known.",
    "distances": "Node -> distance, by the firmware's SLIT; the node itself is 10.",
    "memory_tier": "Number of its memory tier by the kernel; a smaller one is faster. null = of none, or not known.",
    "memory_speed": "Speed of its memory by the firmware (HMAT, CDAT); null = the firmware does not say.",
    "valid": "Nothing is wrong with it; null = it is absent or was not read, where that may be.",
    "context": "Context of the kubeconfig; null = there is none, as in a pod.",
    "unread": "Reason why some processes were not read at all; null = all were read.",
    "alive": "Processes that live. More than are here: `unread` says why.",
    "ranks_summary": "The ranks in one sentence; null = there is none.",
    "seconds_high": "Upper end of the same.",
    "checks": "All checks, in the order they were made.",
    "judged_bytes": "anon + shmem + hugetlb over all nodes; null = not known.",
    "version": "Its version.",
    "name": "Its name.",
}
"""Attribute -> its description, where a type has none of its own: these are the same in all documents."""


def schema(kind: str) -> Schema:
    """The schema of one kind of document, whole in itself."""
    of = KINDS[kind]
    _, found = msgspec.json.schema_components([of, Header], schema_hook=_schema_of_ours, ref_template=_HERE + "{name}")
    types = {one.__name__: one for one in _structs([of, Header])}
    parts = {name: _described(part, types.get(name)) for name, part in found.items()}
    header, body = parts.pop(Header.__name__), parts.pop(of.__name__)
    marks = {"apiVersion": {"const": API_VERSION}, "kind": {"const": kind}}
    properties = {name: marks.get(name, {}) | one for name, one in header["properties"].items()}
    for name, mark in marks.items():
        properties[name] = {**mark, "description": header["properties"][name]["description"]}
    return {
        **body,
        "title": kind,
        "properties": properties | {name: one for name, one in body["properties"].items() if name not in properties},
        "required": list(dict.fromkeys([*header["required"], *body.get("required", ())])),
        "$defs": dict(sorted(parts.items())),
    }


@cache
def documents() -> tuple[dict[str, Schema], dict[str, Schema]]:
    """Kind -> its schema without its parts, and name -> each part of any kind."""
    kinds = {kind: schema(kind) for kind in KINDS}
    shared: dict[str, Schema] = {}
    for one in kinds.values():
        for name, part in one.pop("$defs").items():
            assert shared.setdefault(name, part) == part, f"two types of documents have the name {name}"
    return kinds, dict(sorted(shared.items()))


def page() -> str:
    """docs/schema.json: a document of any kind is valid by it. A line for each kind, and for each part."""
    kinds, shared = documents()
    head = json.dumps({"$schema": _DIALECT, "$id": _ID, "title": "The documents of numaudit"}, indent=1)[:-2]
    of_kinds = ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in kinds.values())
    parts = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in shared.items())
    return f'{head},\n "oneOf": [\n{of_kinds}\n ],\n "$defs": {{\n{parts}\n }}\n}}\n'


@cache
def validator(kind: str) -> Draft202012Validator:
    """What validates documents of one kind by its schema, which is valid itself."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 (a second, and few processes of the tests need it)

    Draft202012Validator.check_schema(schema(kind))
    return Draft202012Validator(schema(kind))


def validate(document: object, kind: str) -> None:
    """Raises jsonschema.ValidationError."""
    validator(kind).validate(document)


def _structs(of: list[type]) -> set[type[Struct]]:
    """All that these consist of."""
    found: set[type[Struct]] = set()
    waiting: list[object] = list(msgspec.inspect.multi_type_info(of))
    while waiting:
        one = waiting.pop()
        if isinstance(one, msgspec.inspect.StructType):
            if one.cls in found:
                continue
            found.add(one.cls)
            waiting += [field.type for field in one.fields]
        elif isinstance(one, msgspec.inspect.Type):
            for name in one.__struct_fields__:
                value = getattr(one, name)
                waiting += value if isinstance(value, tuple) else [value]
    return found


def _described(part: Schema, of: type[Struct] | None) -> Schema:
    """The part with the description of each of its fields, as far as there is one."""
    if of is None:
        return part
    fields = dict(part["properties"])
    for attribute, name in zip(of.__struct_fields__, of.__struct_encode_fields__, strict=True):
        text = field_texts(of).get(attribute, _WORDS.get(attribute))
        if text is not None:
            fields[name] = {**fields[name], "description": text}
    return {**part, "properties": fields}


@cache
def field_texts(of: type) -> dict[str, str]:
    """Attribute -> the text below it, those of its bases included."""
    found: dict[str, str] = {}
    for base in reversed(of.__mro__):
        if base in (object, Struct) or not issubclass(base, Struct) or base.__module__.startswith("msgspec"):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and is_text:
                text = inspect.cleandoc(ast.literal_eval(ast.unparse(below)))
                found[ast.unparse(field.target)] = text.replace("\n", " ")
    return found


def _schema_of_ours(of: type) -> Schema:
    if issubclass(of, Timestamp):
        return {"type": "string", "format": "date-time"}
    if issubclass(of, NodeSet):
        return {"type": "array", "items": {"type": "integer", "minimum": 0}, "uniqueItems": True}
    if issubclass(of, CpuSet):
        return {"type": "string", "pattern": r"^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$"}
    raise NotImplementedError(f"no document shows a {of.__name__}")
