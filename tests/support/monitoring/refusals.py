"""A captured kubelet refuses its pods while the agent looks on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

REFUSED = ("gu-toobig-numanode", "gu-cross-numanode")
"""Pods that the kubelet of kubernetes-four-nodes, and so of misaligned-node, refused."""


def hold_back(tree: Path) -> list[str]:
    """The lines of the kubelet's log from its first refusal on; tree and pods are as they were before."""
    pods = json.loads((tree / "numaudit/pods.json").read_text())
    pods["items"] = [pod for pod in pods["items"] if pod["metadata"]["name"] not in REFUSED]
    (tree / "numaudit/pods.json").write_text(json.dumps(pods))
    log = (tree / "numaudit/kubelet.log").read_text().splitlines(keepends=True)
    first = next(number for number, line in enumerate(log) if any(name in line for name in REFUSED))
    (tree / "numaudit/kubelet.log").write_text("".join(log[:first]))
    return log[first:]


def refuse(tree: Path, lines: Iterable[str]) -> None:
    """The lines are written now: what was refused before an agent began is no increase to it."""
    now = datetime.now(UTC).strftime("%m%d %H:%M:%S.%f")
    with (tree / "numaudit/kubelet.log").open("a") as log:
        log.writelines(re.sub(r"^(\w)\d{4} [\d:.]+", rf"\g<1>{now}", line) for line in lines)
