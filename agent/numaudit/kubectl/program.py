"""The user's kubectl: where it is, its flags, and the context that it uses."""

from __future__ import annotations

import shutil
import subprocess
from typing import Self

import msgspec
from msgspec import Struct

from numaudit.errors import InputError, Unavailable, printable

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
