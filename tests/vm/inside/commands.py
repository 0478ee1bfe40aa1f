"""`numaudit run` for tests in the guest: a machine with equal nodes, and commands that are started by forking."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

import numaudit.cli.manager.run_work  # noqa: F401 -- imported once here, and not by each child
from numaudit.cli.main import call
from numaudit.containermanager.memory.state import Block
from numaudit.intent.node import Promise
from numaudit.topology.nodeset import CpuSet, NodeSet
from workload import CGROUPS, MIB

NODES = range(4)
NODE = 400 * MIB
"""What commands may have of each node."""
CONFIGURATION = "run.yaml"
_INPUTS: set[int] = set()
"""Our ends of the commands' inputs: a later one must not hold an earlier one's open."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A state folder and a configuration."""

    folder: Path

    @classmethod
    def below(cls, folder: Path, **settings: object) -> Lab:
        """With NODE bytes for commands on every node, whatever its size, and more settings of the configuration."""
        reserved = [
            {"numaNode": node, "limits": {"memory": _total(node) - NODE}} for node in NODES if _total(node) > NODE
        ]
        (folder / CONFIGURATION).write_text(yaml.safe_dump({"reservedMemory": reserved, **settings}))
        return cls(folder)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def arguments(self, mebibytes: int, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        files = ("--state-dir", str(self.state), "--config", str(self.folder / CONFIGURATION))
        return ["run", "--memory", f"{mebibytes}Mi", *files, *options, "--", *command]

    def start(
        self, mebibytes: int, *command: str, options: tuple[str, ...] = (), before: Callable[[], None] = lambda: None
    ) -> Started:
        """`numaudit run` in a process of its own, in which `before` is called first."""
        return started(self.arguments(mebibytes, *command, options=options), before)

    def run(self, mebibytes: int, *command: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
        """Exit code, and all that was printed."""
        started = self.start(mebibytes, *command, options=options)
        return started.end()

    def entries(self) -> dict[str, dict[str, object]]:
        """By holder, as the memory file itself has them; none where there is no file."""
        held = json.loads(self._memory.read_text()).get("entries", {}) if self._memory.exists() else {}
        assert isinstance(held, dict)
        return held

    def free(self) -> dict[int, int]:
        """Free bytes by node, as the file has them."""
        machine = json.loads(self._memory.read_text())["machineState"]
        return {int(node): of["memoryMap"]["memory"]["free"] for node, of in machine.items()}

    def promise(self) -> Promise:
        """What the only command has, by both files."""
        ((blocks,),) = [of.values() for of in json.loads(self._memory.read_text())["entries"].values()]
        memory = [Block.of(one["type"], one["size"], NodeSet.from_ids(one["numaAffinity"])) for one in blocks]
        held = json.loads((self.state / "cpu_manager_state").read_text()).get("entries", {})
        cpus = [CpuSet.parse(one) for of in held.values() for one in of.values()]
        return Promise(tuple(memory), cpus[0] if cpus else CpuSet())

    @property
    def _memory(self) -> Path:
        return self.state / "memory_manager_state"

    def shared_cpus(self) -> str:
        return str(json.loads((self.state / "cpu_manager_state").read_text())["defaultCpuSet"])


@dataclass(slots=True)
class Started:
    """A `numaudit run` under way."""

    pid: int
    _output: int
    _input: int
    _status: int | None = field(default=None)

    def line(self) -> str:
        """The next line that it, or its command, prints; empty = it has closed its output."""
        line = b""
        while not line.endswith(b"\n") and (byte := os.read(self._output, 1)):
            line += byte
        return line.decode()

    def say(self, text: str) -> None:
        os.write(self._input, f"{text}\n".encode())

    def close_input(self) -> None:
        """A command that reads until the end of its input ends."""
        if self._input >= 0:
            os.close(self._input)
            _INPUTS.remove(self._input)
            self._input = -1

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code; of one that a signal ended, minus the signal."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def end(self) -> tuple[int, str]:
        """Close its input; its exit code, and what it printed to the end."""
        self.close_input()
        text = b""
        while some := os.read(self._output, 65536):
            text += some
        os.close(self._output)
        return self.wait(), text.decode()


def started(arguments: list[str], before: Callable[[], None] = lambda: None) -> Started:
    """numaudit in a process of its own, in which `before` is called first."""
    ours, theirs = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.dup2(theirs[0], 0)
            os.dup2(ours[1], 1)
            os.dup2(ours[1], 2)
            for one in (*ours, *theirs, *_INPUTS):
                os.close(one)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            before()
            code = call(arguments)
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(ours[1])
    os.close(theirs[0])
    _INPUTS.add(theirs[1])
    return Started(pid, ours[0], theirs[1])


def cgroups() -> list[Path]:
    """Of commands."""
    return sorted((CGROUPS / "numaudit").glob("run-*"))


@contextlib.contextmanager
def ending(*started: Started) -> Iterator[None]:
    """Kill what still runs at the end, and what runs in cgroups of commands."""
    try:
        yield
    finally:
        for one in started:
            if one._status is None:
                with contextlib.suppress(ProcessLookupError):
                    one.kill()
                one.close_input()
                one.wait()
        for group in cgroups():
            (group / "cgroup.kill").write_text("1")


def _total(node: int) -> int:
    words = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text().split()
    return int(words[words.index("MemTotal:") + 1]) << 10
