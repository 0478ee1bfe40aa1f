"""One look at a node without an agent: a privileged pod, as `kubectl debug` makes it, which is deleted afterwards.

Its host is read-only, and the kubelet ends it when its time is over, also when nobody is left to delete it.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kubectl.api import Api, Kubectl, check
from numaudit.kubectl.cluster import rule
from numaudit.kubectl.objects import Pod, PodStatus
from numaudit.kubectl.remote import print_escaped

HOST = "/host"
_CONTAINER = "numaudit"
_POLL_SECONDS = 0.5
_SECONDS = 30.0
_LARGEST_LOG = 256 << 20
_NO_START = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")


class Look(Struct, frozen=True):
    """A command in the image, on a node."""

    node: str
    image: str
    command: tuple[str, ...]

    def pod(self, seconds: float) -> Mapping[str, Any]:
        """That of `kubectl debug --profile=sysadmin`, without the host's network and IPC, which no verb needs."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "numaudit-look-", "labels": {"app.kubernetes.io/managed-by": "numaudit"}},
            "spec": {
                "nodeName": self.node,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": max(1, round(seconds)),
                "tolerations": [{"operator": "Exists"}],
                "hostPID": True,
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": _CONTAINER,
                        "image": self.image,
                        "command": list(self.command),
                        "securityContext": {"privileged": True},
                        "volumeMounts": [{"name": "host", "mountPath": HOST, "readOnly": True}],
                    }
                ],
                "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
            },
        }

    def in_words(self, namespace: str | None) -> str:
        """The line that does the same by hand, but for the end of the pod."""
        where = [] if namespace is None else ["-n", namespace]
        words = ["kubectl", "debug", f"node/{self.node}", *where, "-i", "-q", "--profile=sysadmin"]
        return shlex.join([*words, f"--image={self.image}", "--", *self.command])


def run(api: Api, kubectl: Kubectl, look: Look, namespace: str, seconds: float) -> int:
    """Let it print here; its exit code. The pod is deleted, however this ends. Raises Forbidden and Unavailable."""
    manifest = json.dumps(look.pod(seconds)).encode()
    # Without validation, which would ask for the server's OpenAPI document.
    create = ("create", "--validate=false", "-n", namespace, "-f", "-", "-o", "name")
    name = kubectl.output(*create, stdin=manifest, needs=rule("pods", "create", where=namespace)).decode().strip()
    path = f"/api/v1/namespaces/{quote(namespace)}/pods/{name.removeprefix('pod/')}"
    try:
        code = _wait(api, path, namespace, seconds)
        answer = api.get(f"{path}/log?container={_CONTAINER}", _SECONDS, most=_LARGEST_LOG)
        check(answer, rule("pods/log", "get", where=namespace))
        sys.stdout.flush()
        said = answer.unpacked(_LARGEST_LOG)
        if sys.stdout.isatty():
            print_escaped(io.BytesIO(said))
        else:
            sys.stdout.buffer.write(said)
            sys.stdout.buffer.flush()
        return code
    finally:
        _delete(kubectl, name, namespace)


def _delete(kubectl: Kubectl, name: str, namespace: str) -> None:
    """Raises Unavailable with the line that deletes it by hand."""
    try:
        with contextlib.suppress(KeyboardInterrupt):
            kubectl.output(
                "delete", name, "-n", namespace, "--wait=false", needs=rule("pods", "delete", where=namespace)
            )
    except Unavailable as error:
        raise Unavailable(f"{error}; `kubectl -n {namespace} delete {name}` deletes the pod that is left") from None


def _wait(api: Api, path: str, namespace: str, seconds: float) -> int:
    """Until its container has ended; the exit code."""
    end = time.monotonic() + seconds
    while True:
        pod = api.object(path, Pod, rule("pods", "get", where=namespace))
        status = next(iter(pod.status.container_statuses or ()), None)
        if status is not None and status.state.terminated is not None:
            return status.state.terminated.exit_code or 0
        if pod.status.phase == "Failed":
            raise Unavailable(f"the pod was refused: {pod.status.reason}: {pod.status.message}")
        if status is not None and status.state.waiting is not None and status.state.waiting.reason in _NO_START:
            waiting = status.state.waiting
            raise Unavailable(f"the pod cannot start: {waiting.reason}: {waiting.message}; is --image right?")
        if time.monotonic() > end:
            state = _state(pod.status)
            raise Unavailable(f"the pod did not end within {seconds:g} s ({state}); --timeout gives it longer")
        time.sleep(_POLL_SECONDS)


def _state(status: PodStatus) -> str:
    said = [one.message for one in status.conditions or () if one.status == "False" and one.message]
    return said[0] if said else status.phase or "Pending"
