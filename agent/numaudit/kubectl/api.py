"""The user's kubectl, and requests to the API server through its proxy, whose socket only this user can open."""

from __future__ import annotations

import contextlib
import http.client
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Self, TypeVar

import msgspec
from msgspec import Struct

from numaudit.errors import InputError, Unavailable, printable
from numaudit.kubectl.objects import Status
from numaudit.net.connection import HttpAnswer, LocalConnection, NotUnderstood

_SECONDS = 20.0
_WORDS = 1000
"""Characters of a message."""
_MISSING = (
    "kubectl is not on PATH, and the plugin reaches the API server through it; install version 1.24 or newer: "
    "https://kubernetes.io/docs/tasks/tools/"
)


class _Context(msgspec.Struct, frozen=True):
    namespace: str = ""


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _Context = _Context()


class _Config(msgspec.Struct, frozen=True):
    contexts: list[_NamedContext] | None = None
    current: str = msgspec.field(default="", name="current-context")


class Kubectl(Struct, frozen=True):
    """kubectl with the flags that choose a cluster."""

    path: str
    flags: tuple[str, ...] = ()

    @classmethod
    def find(cls, context: str | None = None, kubeconfig: str | None = None) -> Self:
        """Raises Unavailable when there is none."""
        path = shutil.which("kubectl")
        if path is None:
            raise Unavailable(_MISSING)
        given = {"--context": context, "--kubeconfig": kubeconfig}
        return cls(path, tuple(f"{flag}={value}" for flag, value in given.items() if value is not None))

    def command(self, *words: str) -> list[str]:
        return [self.path, *self.flags, *words]

    def output(self, *words: str, stdin: bytes = b"", needs: str | None = None) -> bytes:
        """Its standard output. Raises Unavailable with its own words.

        `needs`: the rule that a role must have for this.
        """
        try:
            done = subprocess.run(self.command(*words), input=stdin, capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"`kubectl {words[0]}` did not answer within {_SECONDS:g} s") from None
        except OSError as error:
            raise Unavailable(f"cannot start {self.path}: {error.strerror}") from None
        if done.returncode:
            said = last_words(done.stderr)
            rule = f"; a role needs {needs}" if needs is not None and "forbidden" in said.lower() else ""
            raise Unavailable(f"`kubectl {words[0]}` failed: {said}{rule}")
        return done.stdout

    def context(self) -> tuple[str | None, str]:
        """The context's name (None = there is none, as in a pod) and its namespace. Raises InputError, Unavailable."""
        try:
            config = msgspec.json.decode(self.output("config", "view", "-o", "json"), type=_Config)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"`kubectl config view` printed what is no kubeconfig: {error}") from None
        asked = next((one.partition("=")[2] for one in self.flags if one.startswith("--context=")), None)
        known = {one.name: one.context.namespace for one in config.contexts or ()}
        name = asked or config.current or None
        if name is None:
            return None, "default"
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise InputError(f"the kubeconfig has no context {name!r}; it has {names}")
        return name, known[name] or "default"


def last_words(text: bytes) -> str:
    """The last line of an error output, without kubectl's own prefix."""
    lines = [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    return printable(lines[-1].removeprefix("error: ").strip()[:_WORDS]) if lines else "it gave no reason"


_START_SECONDS = 20.0
_LARGEST_OBJECT = 256 << 20
LARGEST_ANSWER = 16 << 20
"""Bytes. A report has some 5 MiB for a thousand containers."""

T = TypeVar("T")


class Forbidden(Unavailable):
    """The API server refuses: 401 or 403."""


class NotFound(Unavailable):
    """The API server knows no such object."""


class Api(Struct, frozen=True):
    """The API server. Safe for threads: each request has a connection of its own."""

    socket: Path
    seconds: float
    """Time limit of a request about objects."""

    def object(self, path: str, kind: type[T], rule: str, headers: Mapping[str, str] | None = None) -> T:
        """`rule`: what a role must have for this. Raises Forbidden with it, NotFound and Unavailable."""
        answer = self.get(path, self.seconds, {"Accept": "application/json", **(headers or {})}, _LARGEST_OBJECT)
        check(answer, rule)
        try:
            return msgspec.json.decode(answer.unpacked(_LARGEST_OBJECT), type=kind)
        except (NotUnderstood, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Unavailable(
                f"the API server's answer to {path.partition('?')[0]} is not understood: {error}"
            ) from None

    def get(
        self, path: str, seconds: float, headers: Mapping[str, str] | None = None, most: int = LARGEST_ANSWER
    ) -> HttpAnswer:
        """Any answer. Raises Unavailable when there is none within the time."""
        connection = LocalConnection(self.socket, seconds)
        try:
            return connection.get(path, headers or {}, most)
        except TimeoutError:
            raise Unavailable(f"no answer within {seconds:g} s") from None
        except NotUnderstood as error:
            raise Unavailable(str(error)) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the answer broke off: {error or type(error).__name__}") from None
        finally:
            connection.close()


def check(answer: HttpAnswer, rule: str) -> None:
    """Raises Forbidden, NotFound and Unavailable for what is no success."""
    if answer.status == http.client.OK:
        return
    said = status_of(answer)
    match answer.status:
        case http.client.UNAUTHORIZED:
            raise Forbidden(f"the API server does not know who asks (401): {said}; log in as for kubectl")
        case http.client.FORBIDDEN:
            raise Forbidden(f"{said}; a role needs {rule}")
        case http.client.NOT_FOUND:
            raise NotFound(said)
        case http.client.INTERNAL_SERVER_ERROR if _has_no_status(answer):
            # `kubectl proxy` answers so when it gets no answer (k8s.io/kubectl/pkg/proxy/proxy_server.go).
            raise Unavailable(f"kubectl reaches no API server: {said}; check KUBECONFIG, --kubeconfig and --context")
    raise Unavailable(f"the API server answered {answer.status}: {said}")


def _has_no_status(answer: HttpAnswer) -> bool:
    return answer.headers.get("Content-Type", "").startswith("text/plain")


def status_of(answer: HttpAnswer) -> str:
    """The server's words: the message of a Status, else the beginning of the text."""
    try:
        body = answer.unpacked(LARGEST_ANSWER)
    except NotUnderstood as error:
        return str(error)
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        found = msgspec.json.decode(body, type=Status)
        if found.kind == "Status" and found.message:
            return printable(found.message[:_WORDS])
    words = " ".join(body[:400].decode("utf-8", "replace").split())
    return printable(words[:200]) or "it gave no reason"


@contextlib.contextmanager
def proxied(kubectl: Kubectl, seconds: float) -> Iterator[Api]:
    """The API server for as long as the block runs. Raises Unavailable when kubectl cannot log in or start."""
    with tempfile.TemporaryDirectory(prefix="numaudit-") as folder, tempfile.TemporaryFile() as errors:
        socket = Path(folder) / "api"
        command = kubectl.command("proxy", f"--unix-socket={socket}")
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        except OSError as error:
            raise Unavailable(f"cannot start {kubectl.path}: {error.strerror}") from None
        with process:
            try:
                _wait_until_it_serves(process, errors)
                yield Api(socket, seconds)
            finally:
                process.terminate()


def _wait_until_it_serves(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    assert process.stdout is not None
    end = time.monotonic() + _START_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, end - time.monotonic())):
            line = process.stdout.readline()
            if line.startswith(b"Starting to serve"):
                return
            if not line:
                process.wait(_START_SECONDS)
                errors.seek(0)
                raise Unavailable(f"`kubectl proxy` ended: {last_words(errors.read())}")
    raise Unavailable(f"`kubectl proxy` did not start within {_START_SECONDS:g} s")
