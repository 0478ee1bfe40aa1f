"""A verb of numaudit in an agent's container, by `kubectl exec`."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from typing import IO

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kubectl.api import Forbidden
from numaudit.kubectl.cluster import AgentPod, rule
from numaudit.kubectl.program import Kubectl, last_words

_ENDED = re.compile(rb"command terminated with exit code (\d+)\s*")
_GRACE = 5
"""Seconds that a verb has for its end."""
_CONNECT_SECONDS = 30.0
_MAY_EXEC = ("pods/exec", "create")


class RemoteVerb(Struct, frozen=True):
    """A verb, its arguments and its limits."""

    arguments: tuple[str, ...]
    seconds: float
    """The container ends it after this time, also when kubectl or the network is gone."""
    stdin: bytes | None = None
    terminal: bool = False
    """With a terminal there, Ctrl-C and the window's size reach it."""

    @property
    def words(self) -> list[str]:
        """The command in the container. A foreground `timeout` lets a verb read from its terminal."""
        foreground = ["--foreground"] if self.terminal else []
        limit = f"{self.seconds:g}"
        return ["timeout", *foreground, f"--kill-after={_GRACE}", limit, "numaudit", *self.arguments]


class EndedVerb(Struct, frozen=True):
    """A verb that ran to its end."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""


def command_of(kubectl: Kubectl, agent: AgentPod, verb: RemoteVerb) -> list[str]:
    flags = (["-i"] if verb.stdin is not None or verb.terminal else []) + (["-t"] if verb.terminal else [])
    return kubectl.command("exec", *flags, "-n", agent.namespace, agent.pod, "-c", agent.container, "--", *verb.words)


def run(kubectl: Kubectl, agent: AgentPod, verb: RemoteVerb) -> int:
    """Let it print here; its exit code. Raises Forbidden and Unavailable."""
    stdin: IO[bytes] | int | None = None if verb.terminal else subprocess.DEVNULL
    with tempfile.TemporaryFile() as given:
        if verb.stdin is not None:
            given.write(verb.stdin)
            given.seek(0)
            stdin = given
        sys.stdout.flush()
        with subprocess.Popen(
            command_of(kubectl, agent, verb), stdin=stdin, stdout=sys.stdout.buffer.fileno(), stderr=subprocess.PIPE
        ) as process:
            try:
                held = _pass_on(process)
            except KeyboardInterrupt:
                process.terminate()
                raise
    return _exit_code(process.returncode, held, agent, verb)


def _pass_on(process: subprocess.Popen[bytes]) -> bytes:
    """Copy messages as they come, but for the last one, which may be kubectl's own; that one."""
    assert process.stderr is not None
    held = b""
    for line in process.stderr:
        if held:
            sys.stderr.write(held.decode("utf-8", "replace"))
            sys.stderr.flush()
        held = line
    process.wait()
    return held


def ask(kubectl: Kubectl, agent: AgentPod, verb: RemoteVerb) -> EndedVerb:
    """The same with its output kept. Raises Forbidden and Unavailable."""
    with subprocess.Popen(
        command_of(kubectl, agent, verb),
        stdin=subprocess.DEVNULL if verb.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            out, err = process.communicate(verb.stdin, timeout=verb.seconds + _GRACE + _CONNECT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Unavailable(f"no answer within {verb.seconds + _GRACE + _CONNECT_SECONDS:g} s") from None
        except BaseException:
            process.kill()
            raise
    lines = err.splitlines(keepends=True)
    code = _exit_code(process.returncode, lines[-1] if lines else b"", agent, verb, quiet=True)
    return EndedVerb(code, out, b"".join(lines[:-1] if code else lines))


def _exit_code(returned: int, last: bytes, agent: AgentPod, verb: RemoteVerb, quiet: bool = False) -> int:
    """The verb's. kubectl has the verb's status as its own, and 1 for its own errors: its last line tells which."""
    if (ended := _ENDED.fullmatch(last)) is None:
        if returned == 0:
            if last and not quiet:
                sys.stderr.write(last.decode("utf-8", "replace"))
            return 0
        said = last_words(last)
        if re.search(r"forbidden", said, re.IGNORECASE):
            raise Forbidden(f"{said}; a role needs {rule(*_MAY_EXEC, where=agent.namespace)}")
        raise Unavailable(f"`kubectl exec` in {agent.name} failed: {said}")
    code = int(ended[1])
    what = f"`{shlex.join(('numaudit', *verb.arguments))}` in {agent.name}"
    match code:
        case 124:
            raise Unavailable(f"{what} did not end within {verb.seconds:g} s; --timeout gives it longer")
        case 126 | 127:
            raise Unavailable(f"{what} cannot be started (exit code {code}): is its image numaudit's own?")
        case 137:
            raise Unavailable(f"{what} was killed (exit code 137): it may have reached the container's memory limit")
    return code
