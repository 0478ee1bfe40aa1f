"""kubectl, as a person would call it. Everything goes to one cluster and, but for reading, to one namespace."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


class Refused(Exception):
    """kubectl failed; its last words."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The cluster of KUBECONFIG, and the namespace that this run made."""

    namespace: str
    program: Sequence[str] = ("kubectl",)
    seconds: float = 120.0

    def run(self, *words: str, text: str = "") -> str:
        """Standard output. Raises Refused."""
        done = self.call(*words, text=text)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            raise Refused(f"`kubectl {' '.join(words[:3])} ...`: {said[-1]}")
        return done.stdout

    def call(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Standard output, standard error and exit status. Raises Refused when there is no answer in time."""
        command = [*self.program, f"--namespace={self.namespace}", *words]
        try:
            return subprocess.run(
                command, input=text, capture_output=True, text=True, check=False, timeout=self.seconds
            )
        except FileNotFoundError:
            raise Refused("kubectl is missing: install it, or add it to PATH") from None
        except subprocess.TimeoutExpired:
            raise Refused(f"`kubectl {' '.join(words[:3])} ...`: no answer within {self.seconds:g} s") from None

    def json(self, *words: str) -> Any:  # noqa: ANN401 (a JSON document)
        """Standard output of `get` as JSON."""
        return json.loads(self.run(*words, "--output=json"))

    def create(self, *objects: Json) -> None:
        """New objects: one that is there already is a Refused, so nothing of others is changed."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.run("create", "--validate=false", "--filename=-", text=json.dumps(listed))

    def may(self, verb: str, resource: str) -> bool:
        """Whether the API server would allow it in every namespace."""
        kind, _, part = resource.partition("/")
        of = [f"--subresource={part}"] if part else []
        return self.call("auth", "can-i", verb, kind, *of, "--all-namespaces", "--quiet").returncode == 0
