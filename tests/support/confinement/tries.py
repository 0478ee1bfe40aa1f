"""What a process may do with the rights it has: each is tried, and what came of it printed as JSON.

A program of its own, which runs in the agent's container: `python3 -c TEXT USER ROOT BARE`, the process ids of three
others outside the container: of another user, of root with all capabilities, and of root without any, as in many
containers.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
CALLS = {
    name: (x86 if X86 else arm64)
    for name, x86, arm64 in (
        ("ptrace", 101, 117),
        ("mount", 165, 40),
        ("setns", 308, 268),
        ("unshare", 272, 97),
        ("syslog", 103, 116),
        ("move_pages", 279, 239),
        ("process_vm_readv", 310, 270),
        ("finit_module", 313, 273),
        ("bpf", 321, 280),
        ("perf_event_open", 298, 241),
        ("open_by_handle_at", 304, 265),
        ("chroot", 161, 51),
        ("reboot", 169, 142),
        ("settimeofday", 164, 170),
        ("setpriority", 141, 140),
    )
}
USER, ROOT, BARE = "another user", "root", "root without capabilities"
"""Whose processes are tried on."""
RAW_TRACEPOINT = 17
PROBE_WRITE_USER, SEND_SIGNAL, PROBE_READ_KERNEL = 36, 109, 113


def call(name: str, *arguments: object) -> int:
    """A system call; raises OSError."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(LIBC.syscall(ctypes.c_long(CALLS[name]), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def attributes(*values: int, size: int = 128) -> ctypes.Array[ctypes.c_char]:
    """Words of 32 bits as the argument of bpf() or perf_event_open()."""
    return ctypes.create_string_buffer(struct.pack(f"{len(values)}I", *values), size)


def instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", code, target | source << 4, offset, value)


def load(helper: int, *before: bytes) -> None:
    """A program that calls a helper: the kernel decides at load whether it may."""
    program = b"".join([*before, instruction(0x85, value=helper), instruction(0xB7), instruction(0x95)])
    text, licence = ctypes.create_string_buffer(program), ctypes.create_string_buffer(b"GPL")
    head = struct.pack("=IIQQ", RAW_TRACEPOINT, len(program) // 8, ctypes.addressof(text), ctypes.addressof(licence))
    os.close(call("bpf", 5, ctypes.create_string_buffer(head, 128), 128))


def moved(target: int, value: int) -> bytes:
    return instruction(0xB7, target, value=value)


def on_stack(target: int) -> bytes:
    """The address of eight bytes on the stack, which are set."""
    zeroed = instruction(0x7A, 10, offset=-8)
    return zeroed + instruction(0xBF, target, 10) + instruction(0x07, target, value=-8)


def listed(path: str) -> Callable[[], object]:
    return lambda: os.listdir(path)  # noqa: PTH208 (its errors have the kernel's numbers)


def read(path: str) -> Callable[[], object]:
    return lambda: Path(path).read_bytes()[:1]


def written(path: str) -> Callable[[], object]:
    """Opened for writing only; what is there stays as it is."""
    return lambda: os.close(os.open(path, os.O_WRONLY))


def created(folder: str) -> Callable[[], object]:
    def make() -> None:
        path = Path(folder) / "numaudit-tried-this"
        path.mkdir()
        path.rmdir()

    return make


def addresses_of_functions() -> None:
    with Path("/proc/kallsyms").open() as lines:
        if not any(int(line.split()[0], 16) for _, line in zip(range(50), lines, strict=False)):
            raise OSError(errno.EACCES, "all addresses are 0")


def trace(pid: int) -> None:
    call("ptrace", 16, pid, 0, 0)
    os.waitpid(pid, 0x40000000)
    call("ptrace", 17, pid, 0, 0)


def memory_of(pid: int) -> None:
    """The first bytes of its program, through process_vm_readv."""
    with Path(f"/proc/{pid}/maps").open() as lines:
        start = int(lines.readline().split("-")[0], 16)
    into = ctypes.create_string_buffer(8)
    local = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(into), 8))
    remote = ctypes.create_string_buffer(struct.pack("=QQ", start, 8))
    call("process_vm_readv", pid, local, 1, remote, 1, 0)


def pages_of(pid: int) -> None:
    """Asks on which node a page of it is."""
    page = (ctypes.c_void_p * 1)(0)
    status = (ctypes.c_int * 1)()
    call("move_pages", pid, 1, page, None, status, 0)


def perf_event() -> None:
    """A counter of the CPU clock, for all processes on CPU 0."""
    words = attributes(1, 128, 0, 0)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
    os.close(call("perf_event_open", words, -1, 0, -1, 8))


def bpf_map() -> None:
    os.close(call("bpf", 0, attributes(2, 4, 8, 1), 128))  # BPF_MAP_TYPE_ARRAY


def others_programs() -> None:
    """Asks for the programs of others by number."""
    with contextlib.suppress(FileNotFoundError):
        call("bpf", 11, attributes(0), 128)


def module() -> None:
    try:
        call("finit_module", os.open("/etc/passwd", os.O_RDONLY), ctypes.c_char_p(b""), 0)
    except OSError as error:
        if error.errno != errno.ENOEXEC:  # it may; this is no module
            raise


def file_by_handle() -> None:
    """Files of the host by number, past every mount. An open handle of the root of a file system is inode 2 on ext4."""
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 8, 1) + struct.pack("=II", 2, 0))
    place = os.open("/etc/numaudit", os.O_RDONLY)
    try:
        call("open_by_handle_at", place, handle, os.O_RDONLY)
    except OSError as error:
        if error.errno != errno.ESTALE:  # it may; no such file here
            raise


def time_set() -> None:
    try:
        call("settimeofday", ctypes.create_string_buffer(struct.pack("=qq", 0, 10**9)), None)
    except OSError as error:
        if error.errno != errno.EINVAL:  # it may; this is no time
            raise


def in_child(action: Callable[[], object]) -> Callable[[], object]:
    """What would change this process itself."""

    def run() -> None:
        child = os.fork()
        if not child:
            try:
                action()
            except OSError as error:
                os._exit(error.errno or 1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            raise OSError(code, "in a child")

    return run


def raw_socket() -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3).close()


def of_process(whose: str, pid: int) -> dict[str, Callable[[], object]]:
    return {
        f"numa_maps of {whose}": read(f"/proc/{pid}/numa_maps"),
        f"page's node of {whose}": lambda: pages_of(pid),
        f"/proc/PID/root of {whose}": listed(f"/proc/{pid}/root/"),
        f"environment of {whose}": read(f"/proc/{pid}/environ"),
        f"memory of {whose}": lambda: memory_of(pid),
        f"ptrace of {whose}": lambda: trace(pid),
        f"signal to {whose}": lambda: os.kill(pid, 0),
    }


def cgroup_written() -> None:
    """In any of the hierarchies: of version 1 there is one for each controller, mounted below a tmpfs."""
    with Path("/proc/self/mounts").open() as lines:
        places = [line.split()[1] for line in lines if line.split()[2] in ("cgroup", "cgroup2")]
    answers = {place: came_of(written(f"{place}/cgroup.procs")) for place in places}
    if "yes" not in answers.values():
        raise OSError(errno.EROFS, str(answers))


def tries(user: int, root: int, bare: int) -> dict[str, Callable[[], object]]:
    mount = [ctypes.c_char_p(b"none"), ctypes.c_char_p(b"/mnt"), ctypes.c_char_p(b"tmpfs"), 0, None]
    kubelet = "/var/lib/kubelet"
    return {
        **of_process(USER, user),
        **of_process(ROOT, root),
        **of_process(BARE, bare),
        "perf events of all processes": perf_event,
        "tracefs": read("/sys/kernel/tracing/events/sched/sched_switch/id"),
        "kernel's addresses": addresses_of_functions,
        "BPF map": bpf_map,
        "BPF reads kernel memory": lambda: load(PROBE_READ_KERNEL, on_stack(1), moved(2, 8), moved(3, 0)),
        "BPF sends signals": lambda: load(SEND_SIGNAL, moved(1, 9)),
        "BPF writes into processes": lambda: load(PROBE_WRITE_USER, on_stack(2), moved(1, 0), moved(3, 8)),
        "others' BPF programs": others_programs,
        "kubelet's checkpoint": read(f"{kubelet}/memory_manager_state"),
        "kubelet's keys": read(f"{kubelet}/pki/kubelet-client-current.pem"),
        "another user's file": read(f"{kubelet}/of-another-user"),
        "other pods' volumes": read(f"{kubelet}/pods/of-another/volumes/token"),
        "write to /": created("/"),
        "write to /sys": written("/sys/kernel/mm/ksm/run"),
        "write to /proc/sys": written("/proc/sys/kernel/core_pattern"),
        "write to a cgroup": cgroup_written,
        "write to tracefs": written("/sys/kernel/tracing/tracing_on"),
        "write to the kubelet's folder": created(kubelet),
        "write to other pods' volumes": created(f"{kubelet}/pods/of-another/volumes"),
        "mount": lambda: call("mount", *mount),
        "user namespace": in_child(lambda: call("unshare", 0x10000000)),
        "the host's mounts": in_child(lambda: call("setns", os.open(f"/proc/{root}/ns/mnt", os.O_RDONLY), 0)),
        "kernel module": module,
        "kernel log": lambda: call("syslog", 3, ctypes.create_string_buffer(64), 64),
        "raw socket": raw_socket,
        "clock": time_set,
        "chroot": in_child(lambda: call("chroot", ctypes.c_char_p(b"/"))),
        "files by handle": file_by_handle,
        "device nodes": device_node,
        "higher priority": in_child(lambda: call("setpriority", 0, 0, -5)),
    }


def device_node() -> None:
    path = "/dev/numaudit-tried-this"
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 1))
    os.unlink(path)  # noqa: PTH108


def came_of(action: Callable[[], object]) -> str:
    """`yes`, or the name of the error."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "yes"


if __name__ == "__main__":
    found = {name: came_of(action) for name, action in tries(*map(int, sys.argv[1:])).items()}
    print(json.dumps(found))
