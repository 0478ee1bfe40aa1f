"""A verb of numaudit in an agent's container, by `kubectl exec`."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
import threading
from typing import IO

from msgspec import Struct

from numaudit.errors import Unavailable, printable
from numaudit.kubectl.api import LARGEST_ANSWER, Forbidden, Kubectl, last_words
from numaudit.kubectl.cluster import AgentPod, rule

_ENDED = re.compile(rb"command terminated with exit code (\d+)\s*")
_GRACE = 5
"""Seconds that a verb has for its end."""
_CONNECT_SECONDS = 30.0
_LONGEST_LINE = 64 << 10
"""Bytes; a longer one is printed in parts."""
_MAY_EXEC = ("pods/exec", "create")


class RemoteVerb(Struct, frozen=True):
    """A verb, its arguments and its limits."""

    arguments: tuple[str, ...]
    seconds: float
    """The container ends it after this time, also when kubectl or the network is gone."""
    stdin: bytes | None = None
    terminal: bool = False
    """With a terminal there, for a live screen: keys and the window's size reach it, and it draws."""

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
    """Let it print here; its exit code. Raises Forbidden and Unavailable.

    On a terminal its text is escaped, but for what draws the screen: whoever owns an agent decides what it prints.
    """
    stdin: IO[bytes] | int | None = None if verb.terminal else subprocess.DEVNULL
    is_escaped = sys.stdout.isatty() and not verb.terminal
    with tempfile.TemporaryFile() as given:
        if verb.stdin is not None:
            given.write(verb.stdin)
            given.seek(0)
            stdin = given
        sys.stdout.flush()
        out = subprocess.PIPE if is_escaped else sys.stdout.buffer.fileno()
        command = command_of(kubectl, agent, verb)
        with subprocess.Popen(command, stdin=stdin, stdout=out, stderr=subprocess.PIPE) as process:
            printing = threading.Thread(target=print_escaped, args=(process.stdout,), daemon=True)
            if is_escaped:
                printing.start()
            try:
                held = _pass_on(process)
            except KeyboardInterrupt:
                process.terminate()
                raise
            if is_escaped:
                printing.join()
    return _exit_code(process.returncode, held, agent, verb)


def print_escaped(stream: IO[bytes]) -> None:
    """To its end, with control characters as escapes, so that it steers no terminal."""
    while line := stream.readline(_LONGEST_LINE):
        text = line.decode("utf-8", "backslashreplace")
        sys.stdout.write(printable(text.rstrip("\n")) + ("\n" if text.endswith("\n") else ""))
    sys.stdout.flush()


def _pass_on(process: subprocess.Popen[bytes]) -> bytes:
    """Copy messages as they come, but for the last one, which may be kubectl's own; that one."""
    assert process.stderr is not None
    held = b""
    while line := process.stderr.readline(_LONGEST_LINE):
        if held:
            sys.stderr.write(held.decode("utf-8", "replace"))
            sys.stderr.flush()
        held = line
    process.wait()
    return held


def ask(kubectl: Kubectl, agent: AgentPod, verb: RemoteVerb) -> EndedVerb:
    """The same with its output kept, and the end of its messages. Raises Forbidden and Unavailable."""
    seconds = verb.seconds + _GRACE + _CONNECT_SECONDS
    is_late = threading.Event()
    with tempfile.TemporaryFile() as given:
        given.write(verb.stdin or b"")
        given.seek(0)
        command = command_of(kubectl, agent, verb)
        with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stderr is not None
            said = _Tail(process.stderr)

            def end() -> None:
                is_late.set()
                process.kill()

            late = threading.Timer(seconds, end)
            late.start()
            try:
                out = process.stdout.read(LARGEST_ANSWER + 1)
                if len(out) > LARGEST_ANSWER:
                    raise Unavailable(f"the answer is larger than {LARGEST_ANSWER} bytes")
                process.wait()
                err = said.whole()
            except BaseException:
                process.kill()
                raise
            finally:
                late.cancel()
    if is_late.is_set():
        raise Unavailable(f"no answer within {seconds:g} s")
    lines = err.splitlines(keepends=True)
    code = _exit_code(process.returncode, lines[-1] if lines else b"", agent, verb, quiet=True)
    return EndedVerb(code, out, b"".join(lines[:-1] if code else lines))


class _Tail:
    """Reads a stream to its end in a thread, and keeps the last of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._kept = stream, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def whole(self) -> bytes:
        self._thread.join()
        return self._kept

    def _read(self) -> None:
        while line := self._stream.readline(_LONGEST_LINE):
            self._kept = (self._kept + line)[-_LONGEST_LINE:]


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
