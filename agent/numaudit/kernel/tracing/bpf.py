"""bpf(2) on descriptors of programs: run one, attach it, ask the kernel about it.

Source: include/uapi/linux/bpf.h (union bpf_attr, struct bpf_prog_info), kernel/bpf/syscall.c, net/bpf/test_run.c.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct

from numaudit.kernel.tracing import syscall

_ON_CPU = 1  # BPF_F_TEST_RUN_ON_CPU


class Command(IntEnum):
    """enum bpf_cmd, as far as we use it."""

    MAP_LOOKUP_ELEM = 1
    MAP_UPDATE_ELEM = 2
    MAP_DELETE_ELEM = 3
    PROG_TEST_RUN = 10
    PROG_GET_FD_BY_ID = 13
    OBJ_GET_INFO_BY_FD = 15
    PROG_QUERY = 16
    RAW_TRACEPOINT_OPEN = 17
    MAP_LOOKUP_BATCH = 24
    MAP_UPDATE_BATCH = 26
    ENABLE_STATS = 32


class ProgramType(IntEnum):
    """enum bpf_prog_type, as far as we use it."""

    KPROBE = 2
    TRACEPOINT = 5
    PERF_EVENT = 7
    RAW_TRACEPOINT = 17
    TRACING = 26


class ProgramInfo(Struct, frozen=True):
    """The kernel's information on a loaded program."""

    type: int
    id: int
    run_time_ns: int
    """Only counted while kernel.bpf_stats_enabled is 1; so is run_count."""
    run_count: int
    misses: int
    """Runs left out because another BPF program was running on that CPU."""


def command(number: Command, attributes: bytearray) -> int:
    """One bpf(2) call; `attributes` is its union bpf_attr and receives the kernel's answers. Raises OSError."""
    buffer = address_of(attributes)
    return syscall.call("bpf", number, buffer, len(attributes))


def address_of(buffer: bytearray) -> int:
    """Return the address of the bytes in memory. The caller keeps the bytearray alive and its size unchanged."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def read_info(descriptor: int, size: int) -> bytes:
    """struct bpf_prog_info or bpf_map_info of a descriptor; what an older kernel does not fill stays 0."""
    info = bytearray(size)
    read_info_into(descriptor, info)
    return bytes(info)


def read_info_into(descriptor: int, info: bytearray) -> None:
    """The same into a struct with the caller's own addresses in it."""
    attributes = bytearray(struct.pack("=IIQ", descriptor, len(info), address_of(info)))
    command(Command.OBJ_GET_INFO_BY_FD, attributes)


def read_program_info(descriptor: int) -> ProgramInfo:
    """The program's type, id and statistics. Raises OSError."""
    info = read_info(descriptor, 224)
    kind, number = struct.unpack_from("=II", info, 0)
    run_time, runs, misses = struct.unpack_from("=QQQ", info, 192)
    return ProgramInfo(kind, number, run_time, runs, misses)


def count_run_time() -> int:
    """While the descriptor is open the kernel counts run time and runs of every program, some 60 ns for each run.

    Raises OSError: EPERM without CAP_SYS_ADMIN, EINVAL before Linux 5.8.
    Source: kernel/bpf/syscall.c (bpf_enable_stats).
    """
    return command(Command.ENABLE_STATS, bytearray(4))  # BPF_STATS_RUN_TIME


class RunTime(Struct, frozen=True):
    """Run time of programs while the kernel counted it."""

    nanoseconds: int = 0
    runs: int = 0

    def __sub__(self, earlier: RunTime) -> RunTime:
        return RunTime(self.nanoseconds - earlier.nanoseconds, self.runs - earlier.runs)


def read_run_time(programs: Iterable[int]) -> RunTime:
    """The sum over some programs; the kernel counts only within `count_run_time`. Raises OSError."""
    infos = [read_program_info(program) for program in programs]
    return RunTime(sum(info.run_time_ns for info in infos), sum(info.run_count for info in infos))


def run_on_cpu(program: int, cpu: int) -> None:
    """Run a raw tracepoint program once on a CPU, in the context of whatever task runs there.

    Raises OSError: ENXIO when the CPU is offline, EINVAL before Linux 5.10.
    """
    command(Command.PROG_TEST_RUN, bytearray(struct.pack("=II 56x IIII", program, 0, _ON_CPU, cpu, 0, 0)))


def open_raw_tracepoint(name: str, program: int) -> int:
    """Attach a raw tracepoint program to a tracepoint for as long as the descriptor is open. Raises OSError."""
    text = bytearray(name.encode() + b"\0")
    return command(Command.RAW_TRACEPOINT_OPEN, bytearray(struct.pack("=QII", address_of(text), program, 0)))


def open_tracing(program: int) -> int:
    """Attach a tracing program to the function it was loaded for, for as long as the descriptor is open.

    Raises OSError. Source: kernel/bpf/syscall.c (bpf_raw_tp_link_attach: without a name).
    """
    return command(Command.RAW_TRACEPOINT_OPEN, bytearray(struct.pack("=QII", 0, program, 0)))
