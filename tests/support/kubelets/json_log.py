"""A kubelet's log in JSON, made of one in text."""

from __future__ import annotations

import json
from datetime import datetime

from numaudit.kubelet.parsers import klog, log


def as_json(line: str, until: datetime) -> str | None:
    """A line of klog's text as `--logging-format=json` writes it; None = it is none."""
    entry = klog.parse(line, known=log._EVENTS, until=until)
    if entry is None or entry.at is None:
        return None
    fields = dict(entry.fields)
    if isinstance(fields.get("pod"), str):
        namespace, _, name = str(fields["pod"]).partition("/")
        fields["pod"] = {"name": name, "namespace": namespace}
    return json.dumps({"ts": entry.at * 1000, "caller": "x/y.go:1", "msg": entry.message, "v": 0, **fields})
