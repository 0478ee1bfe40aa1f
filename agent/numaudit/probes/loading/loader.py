"""Load BPF programs through a short-lived process, and keep only their descriptors.

Their bytecode is stored with the package. Where none fits the text, the process compiles it, and needs bcc.

The programs and maps live exactly as long as somebody holds their descriptors: nothing is pinned, so
however this process ends, the kernel unloads everything.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct, field

import numaudit
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.probes import reasons
from numaudit.probes.loading import program_sources
from numaudit.probes.reasons import ProbeRefusal, Reason

DEADLINE = 60.0
"""Seconds. A loader takes less than one on an idle machine, and some ten in an emulated guest."""

_PACKAGE = Path(numaudit.__file__).parent
_MOST_DESCRIPTORS = 64
_LARGEST_ANSWER = 1 << 16
_GRACE = 2.0
"""Seconds for a process that has closed its socket to end by itself."""
_SYSTEM_PYTHON = "/usr/bin/python3"
_WITHOUT_BCC = (Reason.NO_BCC, Reason.BCC_BROKEN)
_DROPPED = "probe_dropped"
"""Map of the header: what the probe could not count."""


class BpfProgram(Struct, frozen=True):
    """One function of a BPF text and what the kernel shall take it for."""

    function: str
    type: ProgramType
    tracepoint: str | None = None
    """`category:event`, for a program of type TRACEPOINT."""
    kernel_function: str | None = None
    """That is to be watched, for a program of type KPROBE or TRACING."""
    btf_id: int | None = None
    """Its number in BTF, for a program of type TRACING, which is run whenever the function is entered (fentry)."""
    may_fail: bool = False
    """True when the rest of the probe is loaded even if the kernel refuses this program."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields that the program loads from its context."""


class ProbeRequest(Struct, frozen=True):
    """One BPF text with everything that it is to bring. Each has maps of its own, those of the headers included."""

    name: str
    programs: tuple[BpfProgram, ...]
    maps: tuple[str, ...]
    """Those to hand over; `probe_dropped` is added."""
    entries: Mapping[str, int] = field(default_factory=dict)
    """Map -> how many entries it has room for, where the text does not say."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Further numbers that the text leaves open: PROBE_CONSTANT, and offsets of PROBE_LOAD that are no tracepoint's."""
    defines: Mapping[str, int] = field(default_factory=dict)
    """Macros that change the code itself. Bytecode is stored for the values that the text names as its forms."""
    refused: Mapping[str, ProbeRefusal] = field(default_factory=dict)
    """Programs of the text that are not even tried on this host, by function."""
    source: Path | None = None
    """The text; None = `NAME.bpf.c` among our own."""


class LoadedProbe(Struct, frozen=True):
    """Descriptors of one probe, by the names in its text. The caller closes them."""

    name: str
    programs: Mapping[str, int] = field(default_factory=dict)
    maps: Mapping[str, int] = field(default_factory=dict)
    """The requested ones, and `probe_dropped`."""
    tracepoint_ids: Mapping[str, int] = field(default_factory=dict)
    """`category:event` -> the kernel's number of it."""
    kernel_functions: Mapping[str, str] = field(default_factory=dict)
    """Requested program -> the kernel function that it watches."""
    refused: Mapping[str, ProbeRefusal] = field(default_factory=dict)
    """Programs that might fail, and did, or were not tried: by function."""
    compiled: str | None = None
    """Reason why the text was compiled on this host; None = its bytecode was stored."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Numbers requested for its programs."""

    def close(self) -> None:
        for descriptor in (*self.programs.values(), *self.maps.values()):
            os.close(descriptor)


Answer = LoadedProbe | ProbeRefusal
"""The outcome of loading one probe."""


def load(
    probes: Sequence[ProbeRequest], *, deadline: float = DEADLINE, pythons: Sequence[str | Path] | None = None
) -> dict[str, Answer]:
    """Load all probes within `deadline` seconds; each is loaded or refused with a reason.

    `pythons` are the interpreters to try: for one that has bcc, where something has to be compiled. By default this
    one, then the system's.
    Raises InputError when a BPF text is missing. Everything else that goes wrong is an outcome.
    """
    end = time.monotonic() + deadline
    outcomes: dict[str, Answer] = {}
    for python in pythons if pythons is not None else find_pythons():
        waiting = [probe for probe in probes if _may_try_again(outcomes.get(probe.name))]
        if waiting:
            outcomes.update(_run(str(python), waiting, end))
    nothing = ProbeRefusal(Reason.NO_BCC, "no Python interpreter was found to run bcc")
    return {probe.name: outcomes.get(probe.name, nothing) for probe in probes}


def find_pythons() -> tuple[str, ...]:
    """Interpreters that may have the distribution's bcc: this one first, then the system's. 3.9 or newer will do."""
    return tuple(dict.fromkeys(path for path in (sys.executable, _SYSTEM_PYTHON) if path and Path(path).exists()))


class _Source(Struct, frozen=True):
    """Source of the programs of one request."""

    found: Mapping[str, Any]
    """Input of the loader process: bytecode, or a text to compile."""
    compiled: str | None
    """Reason why it has to be compiled."""

    @classmethod
    def of(cls, request: ProbeRequest) -> _Source:
        """Raises InputError and OSError."""
        text = program_sources.read_text(request.name, request.defines, request.source)
        found = program_sources.find_bytecode(text)
        if isinstance(found, str):
            return cls({"text": text.whole, "defines": dict(text.defines)}, found)
        return cls({"bytecode": found}, None)


def _may_try_again(outcome: Answer | None) -> bool:
    return outcome is None or (isinstance(outcome, ProbeRefusal) and outcome.reason in _WITHOUT_BCC)


def _run(python: str, probes: Sequence[ProbeRequest], end: float) -> dict[str, Answer]:
    """One loader process from start to end."""
    try:
        sources = {probe.name: _Source.of(probe) for probe in probes}
        return _converse(python, probes, sources, end)
    except OSError as error:
        return _refuse(probes, reasons.of_error("the programs cannot be read, or given to the loader process", error))


def _converse(
    python: str, probes: Sequence[ProbeRequest], sources: Mapping[str, _Source], end: float
) -> dict[str, Answer]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # A file in memory: the child reads clang's words back from it, and a container may have no place to write.
    with ours, theirs, os.fdopen(os.memfd_create("numaudit-loader-log"), "w+b") as log:
        with theirs:
            ours.send(json.dumps([_pack(one, sources[one.name]) for one in probes]).encode())
            try:
                child = _start(python, theirs, end, log)
            except OSError as error:
                return _refuse(probes, ProbeRefusal(Reason.LOADER_DIED, f"cannot start {python}: {error.strerror}"))
        outcomes: dict[str, Answer] = {}
        try:
            ended_early = _receive(ours, probes, sources, end, outcomes)
            silent = _died(child, log) if ended_early else None
        except ProbeRefusal as refusal:
            silent = refusal
        except TimeoutError:
            silent = ProbeRefusal(Reason.LOADER_TIMEOUT, "the loader process did not finish in time and was killed")
        except BaseException:
            close(outcomes)
            raise
        finally:
            _end(child)
    return outcomes if silent is None else _refuse(probes, silent) | outcomes


def _pack(probe: ProbeRequest, source: _Source) -> dict[str, Any]:
    """The request as the loader process reads it."""
    return {
        "name": probe.name,
        "maps": [*probe.maps, _DROPPED],
        "entries": {**probe.entries},
        "numbers": {**probe.numbers},
        "programs": msgspec.to_builtins(probe.programs),
        **source.found,
    }


def _start(python: str, channel: socket.socket, end: float, log: IO[bytes]) -> subprocess.Popen[bytes]:
    seconds = math.ceil(max(1.0, end - time.monotonic()))
    own = {"BCC_KERNEL_SOURCE": str(program_sources.bpf_folder())} if "BCC_KERNEL_SOURCE" not in os.environ else {}
    path = os.pathsep.join(filter(None, (str(_PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [python, "-m", "numaudit.probes.loading.loader_child", str(channel.fileno()), str(seconds)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[channel.fileno()],
        env={**os.environ, **own, "PYTHONPATH": path},
        start_new_session=True,
    )


def _receive(
    channel: socket.socket,
    probes: Sequence[ProbeRequest],
    sources: Mapping[str, _Source],
    end: float,
    outcomes: dict[str, Answer],
) -> bool:
    """Collect an answer for each. True = the process ended before. Raises TimeoutError, ProbeRefusal for the rest."""
    requests = {probe.name: probe for probe in probes}
    while len(outcomes) < len(probes):
        channel.settimeout(max(0.001, end - time.monotonic()))
        try:
            message, descriptors, flags, _ = socket.recv_fds(
                channel, _LARGEST_ANSWER, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:  # it ended before it read our requests
            return True
        if not message:
            return True
        if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
            for descriptor in descriptors:
                os.close(descriptor)
            raise ProbeRefusal(Reason.TOO_MANY_FILES, f"the loader's answer was cut short (flags {flags:#x})")
        answer = json.loads(message)
        name = answer["name"]
        outcomes[name] = _unpack(answer, descriptors, requests[name], sources[name].compiled)
    return False


def _unpack(answer: dict[str, Any], descriptors: list[int], request: ProbeRequest, compiled: str | None) -> Answer:
    if "reason" in answer:
        reason, text = Reason(answer["reason"]), answer["text"]
        if compiled is not None and reason in _WITHOUT_BCC:
            text = f"{compiled}, and {text}"
        return ProbeRefusal(reason, text)
    programs = dict(zip(answer["programs"], descriptors, strict=False))
    maps = dict(zip(answer["maps"], descriptors[len(programs) :], strict=True))
    failed = {function: ProbeRefusal(Reason(why), text) for function, (why, text) in answer["refused"].items()}
    watched = {one.function: one.kernel_function for one in request.programs if one.kernel_function}
    refused = {**request.refused, **failed}
    return LoadedProbe(
        request.name, programs, maps, answer["tracepoint_ids"], watched, refused, compiled, request.numbers
    )


def _died(child: subprocess.Popen[bytes], log: IO[bytes]) -> ProbeRefusal:
    """Return the reason why the process closed its end early."""
    try:
        code = child.wait(timeout=_GRACE)
    except subprocess.TimeoutExpired:
        return ProbeRefusal(Reason.LOADER_DIED, "the loader process closed its socket too early")
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    reason, how = Reason.LOADER_FAILED, f"with exit code {code}"
    if code < 0:
        reason, how = Reason.LOADER_DIED, f"by signal {signal.Signals(-code).name}"
    return ProbeRefusal(reason, f"the loader process ended {how}; its last words: {lines[-1] if lines else '-'}")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Nothing of it is needed any more: end it, with whatever it has started, and reap it."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def close(outcomes: Mapping[str, Answer]) -> None:
    """Close the descriptors of all that were loaded."""
    for outcome in outcomes.values():
        if isinstance(outcome, LoadedProbe):
            outcome.close()


def _refuse(probes: Iterable[ProbeRequest], refusal: ProbeRefusal) -> dict[str, Answer]:
    return {probe.name: refusal for probe in probes}
