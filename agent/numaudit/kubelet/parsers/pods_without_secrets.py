"""The kubelet's /pods without commands and environments, for captures. Pure: bytes in, bytes out."""

from __future__ import annotations

import msgspec

from numaudit.kubelet.parsers.pod import (
    CONFIG_SEEN,
    CONFIG_SOURCE,
    CONTAINER_LISTS,
    MIRROR,
    RUN_STATES,
    TEMPLATE_HASH,
)
from numaudit.kubelet.parsers.pods import decode_pod, pod_list


def without_secrets(body: bytes) -> bytes:
    """The same list with only the fields that are read here: commands and environments hold secrets.

    Raises ParseError when it is no list of pods.
    """
    found = pod_list(body)
    head = msgspec.json.encode({"kind": found.kind, "apiVersion": found.api_version}).removesuffix(b"}")
    items = b",".join([msgspec.json.encode(_kept(decode_pod(one), _READ)) for one in found.items or ()])
    return msgspec.json.format(b'%b,"items":[%b]}' % (head, items), indent=1)


def _kept(value: object, fields: object) -> object:
    """The parts of a document that a tree of fields names; None in the tree = all below."""
    if not isinstance(fields, dict):
        return value
    if isinstance(value, list):
        return [_kept(one, fields) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _kept(item, fields[key]) for key, item in value.items() if key in fields}


_RESOURCES = {"requests": None, "limits": None, "claims": {"name": None, "request": None}}
_CLAIM = dict.fromkeys(("name", "resourceClaimName", "resourceClaimTemplateName"))
_CONTAINER = {"name": None, "restartPolicy": None, "resources": _RESOURCES}
_STATE: dict[str, object] = {
    one: dict.fromkeys(("startedAt", "finishedAt", "containerID", "exitCode")) for one in RUN_STATES
}
_STATUS = {
    "name": None,
    "containerID": None,
    "restartCount": None,
    "allocatedResources": None,
    "state": _STATE,
    "lastState": _STATE,
}
_READ: dict[str, object] = {
    "metadata": {
        "name": None,
        "namespace": None,
        "uid": None,
        "creationTimestamp": None,
        "deletionTimestamp": None,
        "annotations": {CONFIG_SOURCE: None, CONFIG_SEEN: None, MIRROR: None},
        "labels": {TEMPLATE_HASH: None},
        "ownerReferences": {"kind": None, "name": None, "controller": None},
    },
    "spec": {
        **dict.fromkeys(("overhead", "priority", "priorityClassName", "restartPolicy")),
        "resources": _RESOURCES,
        "resourceClaims": _CLAIM,
        **{in_spec: _CONTAINER for in_spec, _, _ in CONTAINER_LISTS},
    },
    "status": {
        **dict.fromkeys(("phase", "reason", "message", "qosClass", "startTime", "resize", "allocatedResources")),
        "conditions": dict.fromkeys(("type", "status", "reason", "message")),
        "resourceClaimStatuses": _CLAIM,
        "extendedResourceClaimStatus": {
            "resourceClaimName": None,
            "requestMappings": dict.fromkeys(("containerName", "resourceName", "requestName")),
        },
        **{in_status: _STATUS for _, in_status, _ in CONTAINER_LISTS},
    },
}
