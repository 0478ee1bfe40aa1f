"""NodeResourceTopology objects as an API server stores them: the resource's schema, server-side apply, merge patch.

Sources: apimachinery's `structured-merge-diff` for ownership and conflicts, the resource definition of
topology.node.k8s.io/v1alpha2 (maps are owned key by key, `zones`, `attributes` and `topologyPolicies` as a whole), and
apimachinery's validation of annotations.
"""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import yaml

Json = dict[str, Any]
FieldPath = tuple[str, ...]
Answer = tuple[int, Json]

GROUP, RESOURCE, KIND = "topology.node.k8s.io", "noderesourcetopologies", "NodeResourceTopology"
API_VERSION = f"{GROUP}/v1alpha2"
_PATH = re.compile(rf"/apis/{re.escape(GROUP)}/v1alpha2/{RESOURCE}(?:/(?P<name>[^/]+))?")
MOST_ANNOTATION_BYTES = 256 << 10
"""Keys and values of all annotations (apimachinery, TotalAnnotationSizeLimitB)."""
_KEY = re.compile(r"(?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_QUANTITY = {
    "anyOf": [
        {"type": "integer"},
        {
            "type": "string",
            "pattern": r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
        },
    ]
}
_ATTRIBUTES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
        "required": ["name", "value"],
        "additionalProperties": False,
    },
}
_ZONE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "type": {"type": "string"},
        "parent": {"type": "string"},
        "costs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "value": {"type": "integer"}},
                "required": ["name", "value"],
                "additionalProperties": False,
            },
        },
        "attributes": _ATTRIBUTES,
        "resources": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "capacity": _QUANTITY,
                    "allocatable": _QUANTITY,
                    "available": _QUANTITY,
                },
                "required": ["name", "capacity", "allocatable", "available"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["name", "type"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": KIND},
        "metadata": {"type": "object"},
        "topologyPolicies": {"type": "array", "items": {"type": "string"}},
        "attributes": _ATTRIBUTES,
        "zones": {"type": "array", "items": _ZONE},
    },
    "required": ["zones"],
    "additionalProperties": False,
}


@dataclass
class Manager:
    """An entry of managedFields."""

    name: str
    operation: str
    fields: set[FieldPath]
    time: str

    def entry(self) -> Json:
        return {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": API_VERSION,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _tree(self.fields),
        }


@dataclass
class Stored:
    """An object without its managedFields, and who owns what of it."""

    value: Json
    managers: list[Manager] = field(default_factory=list)

    def shown(self) -> Json:
        value = copy.deepcopy(self.value)
        value["metadata"]["managedFields"] = [one.entry() for one in self.managers]
        return value

    def owners(self, path: FieldPath) -> list[Manager]:
        return [one for one in self.managers if path in one.fields]


class Refusal(Exception):
    """An answer that is no object."""

    def __init__(self, code: int, reason: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code, self.reason, self.details = code, reason, details

    def answer(self) -> Answer:
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": str(self)}
        return self.code, {**status, "reason": self.reason, "details": self.details, "code": self.code}


@dataclass
class Topologies:
    """The objects by name."""

    is_installed: bool = True
    """The resource definition is there."""
    stored: dict[str, Stored] = field(default_factory=dict)
    writes: int = 0
    """Requests that changed something."""
    now: str = "2026-11-23T10:00:00Z"
    _version: int = 100
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def named(self, path: str) -> str | None:
        """The object's name in a path; "" = of the list; None = no path of this resource."""
        found = _PATH.fullmatch(path)
        return None if found is None else found["name"] or ""

    def get(self, name: str) -> Answer:
        return (200, self.stored[name].shown()) if name in self.stored else _not_found(name).answer()

    def apply(self, name: str, body: bytes, manager: str, *, force: bool, may_create: bool = True) -> Answer:
        """Server-side apply."""
        try:
            applied = _checked(name, yaml.safe_load(body), manager)
            with self._lock:
                return self._apply(name, applied, manager, force, may_create)
        except Refusal as refusal:
            return refusal.answer()

    def merge(self, name: str, patch: Json, manager: str) -> Answer:
        """A JSON merge patch, as the resource topology exporter sends."""
        with self._lock:
            if name not in self.stored:
                return _not_found(name).answer()
            old = self.stored[name]
            value = _merged(old.value, patch)
            changed = {path for path in _paths(value) | _paths(old.value) if _at(value, path) != _at(old.value, path)}
            for one in old.managers:
                one.fields -= changed
            mine = next((one for one in old.managers if (one.name, one.operation) == (manager, "Update")), None)
            if mine is None:
                old.managers.append(mine := Manager(manager, "Update", set(), self.now))
            mine.fields |= {path for path in changed if _at(value, path) is not None}
            return self._store(name, Stored(value, [one for one in old.managers if one.fields]), 200)

    def delete(self, name: str) -> None:
        self.stored.pop(name, None)

    def _apply(self, name: str, applied: Json, manager: str, force: bool, may_create: bool) -> Answer:
        old = self.stored.get(name)
        if old is None and not may_create:
            message = f'{RESOURCE}.{GROUP} is forbidden: User "agent" cannot create resource "{RESOURCE}"'
            raise Refusal(403, "Forbidden", f'{message} in API group "{GROUP}" at the cluster scope')
        before = old or Stored({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}})
        fields = _paths(applied)
        if not force:
            _refuse_conflicts(before, applied, fields, manager)
        value, managers = copy.deepcopy(before.value), copy.deepcopy(before.managers)
        mine = next((one for one in managers if (one.name, one.operation) == (manager, "Apply")), None)
        others = [one for one in managers if one is not mine]
        for path in (mine.fields if mine else set()) - fields:
            if not any(path in one.fields for one in others):
                _remove(value, path)
        for path in fields:
            if _at(value, path) != _at(applied, path):
                _put(value, path, copy.deepcopy(_at(applied, path)))
                for one in others:
                    one.fields.discard(path)
        if mine is None:
            managers.append(mine := Manager(manager, "Apply", set(), self.now))
        mine.time = self.now if fields != mine.fields else mine.time
        mine.fields = fields
        return self._store(name, Stored(value, [one for one in managers if one.fields]), 200 if old else 201)

    def _store(self, name: str, new: Stored, code: int) -> Answer:
        _validate(name, new.value)
        old = self.stored.get(name)
        if old is None or new != old:
            self._version += 1
            self.writes += 1
            new.value["metadata"] |= {
                "name": name,
                "uid": (old.value if old else {}).get("metadata", {}).get("uid", f"uid-{self._version}"),
                "creationTimestamp": self.now,
                "resourceVersion": str(self._version),
            }
            self.stored[name] = new
        return code, self.stored[name].shown()


def _checked(name: str, applied: object, manager: str) -> Json:
    if not manager:
        raise Refusal(422, "Invalid", 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value')
    if not isinstance(applied, dict):
        raise Refusal(400, "BadRequest", "error decoding YAML: it is no object")
    metadata = applied.get("metadata") or {}
    if (applied.get("apiVersion"), applied.get("kind")) != (API_VERSION, KIND):
        raise Refusal(400, "BadRequest", "invalid object type")
    if metadata.get("managedFields"):
        raise Refusal(400, "BadRequest", "metadata.managedFields must be nil")
    if metadata.get("name", name) != name:
        message = f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        raise Refusal(400, "BadRequest", message)
    return applied


def _refuse_conflicts(before: Stored, applied: Json, fields: set[FieldPath], manager: str) -> None:
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{owner.name}"', "field": _dotted(path)}
        for path in sorted(fields)
        if _at(before.value, path) != _at(applied, path)
        for owner in before.owners(path)
        if (owner.name, owner.operation) != (manager, "Apply")
    ]
    if not causes:
        return
    listed = ", ".join(f"{one['message']}: {one['field']}" for one in causes)
    plural = "conflict" if len(causes) == 1 else "conflicts"
    raise Refusal(409, "Conflict", f"Apply failed with {len(causes)} {plural}: {listed}", causes=causes)


def _validate(name: str, value: Json) -> None:
    causes = []
    for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(value):
        where = ".".join(str(part) for part in error.absolute_path) or "<root>"
        if error.validator == "required":
            missing = next(key for key in error.validator_value if key not in error.instance)
            where = missing if where == "<root>" else f"{where}.{missing}"
            causes.append({"reason": "FieldValueRequired", "message": "Required value", "field": where})
        else:
            causes.append({"reason": "FieldValueInvalid", "message": f"Invalid value: {error.message}", "field": where})
    annotations: dict[str, Any] = value["metadata"].get("annotations") or {}
    for key, text in annotations.items():
        if not _KEY.fullmatch(key) or not isinstance(text, str):
            message = f"Invalid value: {key!r}"
            causes.append({"reason": "FieldValueInvalid", "message": message, "field": "metadata.annotations"})
    if sum(len(key.encode()) + len(str(text).encode()) for key, text in annotations.items()) > MOST_ANNOTATION_BYTES:
        message = f"Too long: may not be more than {MOST_ANNOTATION_BYTES} bytes"
        causes.append({"reason": "FieldValueTooLong", "message": message, "field": "metadata.annotations"})
    if causes:
        listed = "; ".join(f"{one['field']}: {one['message']}" for one in causes)
        details = {"name": name, "group": GROUP, "kind": KIND, "causes": causes}
        raise Refusal(422, "Invalid", f'{KIND}.{GROUP} "{name}" is invalid: {listed}', **details)


def _not_found(name: str) -> Refusal:
    details = {"name": name, "group": GROUP, "kind": RESOURCE}
    return Refusal(404, "NotFound", f'{RESOURCE}.{GROUP} "{name}" not found', **details)


def _paths(value: Json) -> set[FieldPath]:
    return set(_walk(value))


def _walk(value: Json) -> Iterator[FieldPath]:
    for kind in ("annotations", "labels"):
        for key in value.get("metadata", {}).get(kind) or {}:
            yield ("metadata", kind, key)
    for key in ("zones", "attributes", "topologyPolicies"):
        if key in value:
            yield (key,)
    for key in value.keys() - {"apiVersion", "kind", "metadata", "zones", "attributes", "topologyPolicies"}:
        raise Refusal(400, "BadRequest", f"failed to create typed patch object: .{key}: field not declared in schema")


def _at(value: Json, path: FieldPath) -> object:
    found: Any = value
    for step in path:
        found = (found or {}).get(step)
    return found


def _put(value: Json, path: FieldPath, new: object) -> None:
    *folders, last = path
    for step in folders:
        value = value.setdefault(step, {})
    value[last] = new


def _remove(value: Json, path: FieldPath) -> None:
    *folders, last = path
    for step in folders:
        value = value.get(step, {})
    value.pop(last, None)


def _merged(old: object, patch: Json) -> Json:
    """RFC 7396."""
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), value) if isinstance(value, dict) else value
    return found


def _dotted(path: FieldPath) -> str:
    return "".join(f".{step}" for step in path)


def _tree(fields: set[FieldPath]) -> Json:
    """FieldsV1."""
    found: Json = {}
    for path in sorted(fields):
        inner = found
        for step in path:
            inner = inner.setdefault(f"f:{step}", {})
    return found


def group() -> Json:
    """An element of the answer to /apis."""
    version = {"groupVersion": API_VERSION, "version": "v1alpha2"}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def discovered() -> Json:
    """The answer to /apis/topology.node.k8s.io/v1alpha2."""
    one = {"name": RESOURCE, "singularName": "noderesourcetopology", "namespaced": False, "kind": KIND}
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    resource = {**one, "verbs": verbs, "shortNames": ["node-res-topo"]}
    return {"kind": "APIResourceList", "groupVersion": API_VERSION, "resources": [resource]}
