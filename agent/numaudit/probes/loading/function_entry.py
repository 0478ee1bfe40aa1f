"""Run a BPF program whenever the kernel enters a function of its own: by a kprobe, or by fentry where that is refused.

A kprobe finds the function by its name and its arguments in registers, whose places depend on the machine. fentry
finds both by BTF. Some kernels refuse one of them, some both; which one works is found by trying.
Source: kernel/events/core.c (perf_kprobe_event_init), kernel/bpf/trampoline.c.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf, btf, perf_event
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.btf import Btf, Function
from numaudit.probes import reasons
from numaudit.probes.loading.loader import BpfProgram, LoadedProbe
from numaudit.probes.reasons import ProbeRefusal, Reason

Way = Literal["kprobe", "fentry"]
WAYS: tuple[Way, ...] = ("kprobe", "fentry")
"""In the order in which they are tried."""

WORD = 8
"""Bytes of a register, and of an argument at fentry."""
_ARGUMENT_REGISTERS = {"x86_64": (14, 13, 12, 11), "aarch64": (0, 1, 2, 3), "riscv64": (10, 11, 12, 13)}
"""Machine -> places of the first four arguments in struct pt_regs, counted in words.

Source: arch/*/include/asm/ptrace.h and each architecture's calling convention.
"""


class Programs(Struct, frozen=True):
    """Programs to load for one function."""

    wanted: tuple[BpfProgram, ...]
    """Each may be refused; then the other is used."""
    refused: Mapping[str, ProbeRefusal]
    """Programs that need not be tried on this host, by their function in the text."""


class Attached(Struct, frozen=True):
    """A program on its hook for as long as the descriptor is open."""

    way: Way
    descriptor: int


def program_name(prefix: str, way: Way) -> str:
    """Name of our program of each way."""
    return f"{prefix}_at_{way}"


def registers() -> tuple[int, ...]:
    """Offsets of the first four arguments at a kprobe; zeros on a machine that `programs` refuses."""
    return tuple(WORD * place for place in _ARGUMENT_REGISTERS.get(os.uname().machine, (0, 0, 0, 0)))


def read_btf(host: Host) -> Btf | ProbeRefusal:
    """This kernel's types, or why they cannot be known."""
    try:
        return btf.read(host)
    except Unavailable as error:
        return ProbeRefusal(Reason.NO_BTF, str(error))
    except (OSError, ParseError) as error:
        return ProbeRefusal(Reason.NO_BTF, f"this kernel's BTF cannot be read: {error}")


def programs(prefix: str, function: str, found: Function | ProbeRefusal | None) -> Programs:
    """Both ways as far as this machine has them; `found` is the function in BTF, None = it is not there."""
    wanted, refused = [], {}
    kprobe, fentry = (program_name(prefix, way) for way in WAYS)
    machine = os.uname().machine
    if machine in _ARGUMENT_REGISTERS:
        wanted.append(BpfProgram(kprobe, ProgramType.KPROBE, kernel_function=function, may_fail=True))
    else:
        known = ", ".join(_ARGUMENT_REGISTERS)
        text = f"where {machine} passes arguments is not known; supported: {known}"
        refused[kprobe] = ProbeRefusal(Reason.UNSUPPORTED, text)
    if isinstance(found, Function):
        tracing = ProgramType.TRACING
        wanted.append(BpfProgram(fentry, tracing, kernel_function=function, btf_id=found.id, may_fail=True))
    else:
        absent = ProbeRefusal(Reason.NO_BTF, f"this kernel's BTF does not describe {function}")
        refused[fentry] = found if found is not None else absent
    return Programs(tuple(wanted), refused)


def attach(host: Host, loaded: LoadedProbe, prefix: str, function: str, ways: Sequence[Way] = WAYS) -> Attached:
    """By the first way that works. Raises ProbeRefusal with what was wrong with each."""
    refusals = {}
    for way in ways:
        try:
            return Attached(way, _attach(host, loaded, prefix, function, way))
        except ProbeRefusal as refusal:
            refusals[way] = refusal
    words = "; ".join(f"{way}: {refusal.text}" for way, refusal in refusals.items())
    first = next(iter(refusals.values()))
    raise ProbeRefusal(first.reason, f"no program can be put on {function}: {words}")


def _attach(host: Host, loaded: LoadedProbe, prefix: str, function: str, way: Way) -> int:
    name = program_name(prefix, way)
    if name in loaded.refused:
        raise loaded.refused[name]
    return _ATTACH[way](host, function, loaded.programs[name])


def _at_kprobe(host: Host, function: str, program: int) -> int:
    """The perf event that holds the program; one CPU's is enough, for a kprobe's programs run on all CPUs."""
    try:
        event = perf_event.open_kprobe(host, function, cpu=perf_event.any_cpu(host))
    except FileNotFoundError:
        raise ProbeRefusal(Reason.NO_KPROBES, "this kernel has no kprobes, or hides the function") from None
    except OSError as error:
        raise reasons.of_perf_event("cannot be opened", error) from error
    try:
        perf_event.set_program(event, program)
        perf_event.enable(event)
    except OSError as error:
        os.close(event)
        raise reasons.of_error("cannot run the program", error) from error
    return event


def _at_fentry(_host: Host, _function: str, program: int) -> int:
    try:
        return bpf.open_tracing(program)
    except OSError as error:
        raise reasons.of_error("cannot be attached", error) from error


_ATTACH: Mapping[Way, Callable[[Host, str, int], int]] = {"kprobe": _at_kprobe, "fentry": _at_fentry}
