"""Reasons why a probe does not run: a small fixed vocabulary, each word with its remedy.

The loader process imports this module under the distribution's Python, which may be older than the
agent's: plain Python 3.9, standard library only.
"""

from __future__ import annotations

import errno
import os
import re
from enum import Enum
from pathlib import Path

from numaudit.errors import Unavailable


class Reason(str, Enum):  # noqa: UP042 (StrEnum is newer than the oldest Python here)
    """One word for metrics and JSON."""

    NO_BCC = "no-bcc"
    BCC_BROKEN = "bcc-broken"
    NO_HEADERS = "no-headers"
    COMPILE_ERROR = "compile-error"
    NO_TRACEFS = "no-tracefs"
    TRACEFS_CLOSED = "tracefs-closed"
    NO_TRACEPOINT = "no-tracepoint"
    NO_EVENT = "no-event"
    NO_KPROBES = "no-kprobes"
    NO_BTF = "no-btf"
    NO_PERMISSION = "no-permission"
    FORBIDDEN = "forbidden"
    SECCOMP = "seccomp"
    PARANOID = "paranoid"
    NO_MEMORY = "no-memory"
    TOO_MANY_FILES = "too-many-files"
    BUSY = "busy"
    REFUSED_BY_VERIFIER = "refused-by-verifier"
    UNSUPPORTED = "unsupported"
    LOADER_TIMEOUT = "loader-timeout"
    LOADER_DIED = "loader-died"
    LOADER_FAILED = "loader-failed"
    CGROUP_V1 = "cgroup-v1"
    NO_CGROUPS = "no-cgroups"
    NO_MEMORY_BLOCKS = "no-memory-blocks"
    NOT_LIVE = "not-live"
    SWITCHED_OFF = "switched-off"
    OVER_BUDGET = "over-budget"
    LOADING = "loading"
    NO_PMU = "no-pmu"
    COUNTS_NOTHING = "counts-nothing"

    @property
    def hint(self) -> str:
        """Advice to the user."""
        return _HINTS[self]

    @property
    def may_pass(self) -> bool:
        """True when the same attempt may succeed later without a change by a person."""
        return self in _PASSING


_LOCKED_DOWN = re.compile(r"(?:cannot use helper|unknown func) bpf_probe_read_kernel\b")
_HINTS = {
    Reason.NO_BCC: "install the distribution's bcc for Python: apt-get install python3-bpfcc (Fedora: python3-bcc)",
    Reason.BCC_BROKEN: "reinstall bcc with its LLVM: apt-get install --reinstall python3-bpfcc libbpfcc",
    Reason.NO_HEADERS: "unset BCC_KERNEL_SOURCE: numaudit brings the few headers that its programs need",
    Reason.COMPILE_ERROR: "the program cannot be compiled for this kernel with this bcc: please report this text",
    Reason.NO_TRACEFS: "mount -t tracefs tracefs /sys/kernel/tracing (in a container: mount the host's there)",
    Reason.TRACEFS_CLOSED: (
        "run as root, or with the capability DAC_READ_SEARCH too; or open it to the user's group: "
        "mount -o remount,mode=0750,gid=GROUP /sys/kernel/tracing"
    ),
    Reason.NO_TRACEPOINT: "this kernel was built without the tracepoint; use a kernel that has it",
    Reason.NO_EVENT: "this kernel or machine does not have the event; nothing can be done about that",
    Reason.NO_KPROBES: "use a kernel with CONFIG_KPROBES and CONFIG_NUMA_BALANCING; every distribution's has both",
    Reason.NO_BTF: "use a kernel with CONFIG_DEBUG_INFO_BTF; every distribution's has it",
    Reason.NO_PERMISSION: "run as root, or with the capabilities BPF and PERFMON (before Linux 5.8: SYS_ADMIN)",
    Reason.FORBIDDEN: "the capabilities are there, so look for a seccomp profile, a security module or kernel lockdown",
    Reason.SECCOMP: (
        "the default seccomp profile of Podman and CRI-O (containers/common 0.60 to 0.67) refuses perf_event_open with "
        "PERFMON alone: use the component `privileged`, or a Localhost profile that allows perf_event_open"
    ),
    Reason.PARANOID: "sysctl kernel.perf_event_paranoid=2, or run with the capability SYS_ADMIN",
    Reason.NO_MEMORY: "give the agent's cgroup more memory, or ask for smaller maps",
    Reason.TOO_MANY_FILES: "raise the limit of open files (ulimit -n, or LimitNOFILE of the service)",
    Reason.BUSY: "another tool uses it exclusively: stop that tool, or wait until it ends",
    Reason.REFUSED_BY_VERIFIER: "the kernel's verifier refuses the program: please report this text",
    Reason.UNSUPPORTED: "this kernel is too old or restricted for the program; Linux 5.14 or newer has all of it",
    Reason.LOADER_TIMEOUT: "the host is overloaded or bcc hangs: try again when it is less busy",
    Reason.LOADER_DIED: "look for the out-of-memory killer in dmesg; loading takes about 20 MiB, compiling about 150",
    Reason.LOADER_FAILED: "please report this text",
    Reason.CGROUP_V1: "boot with systemd.unified_cgroup_hierarchy=1: BPF programs know cgroups of version 2 only",
    Reason.NO_CGROUPS: "numaudit doctor says more, in its line `cgroup`",
    Reason.NO_MEMORY_BLOCKS: "use a kernel with CONFIG_MEMORY_HOTPLUG (every distribution's has it) and mount sysfs",
    Reason.NOT_LIVE: "leave out --root: a captured tree has no kernel to ask",
    Reason.OVER_BUDGET: "it resumes when there is less load; or raise the agent's setting overhead.max_cpu_percent",
    Reason.SWITCHED_OFF: "name it in the agent's setting `probes`",
    Reason.NO_PMU: "numaudit doctor says more, in its line `access pmu`; the other sources do not need a PMU",
    Reason.COUNTS_NOTHING: "this CPU or its hypervisor does not count them; the other sources do not need a PMU",
    Reason.LOADING: "wait: loading takes seconds, and at most a minute",
}

_SYS_ADMIN, _PERFMON, _BPF = 21, 38, 39
_USUAL_PARANOIA = 2
"""The highest of kernel.perf_event_paranoid that the kernel's own source knows."""

_PASSING = frozenset(
    (
        Reason.LOADER_TIMEOUT,
        Reason.LOADER_DIED,
        Reason.LOADER_FAILED,
        Reason.NO_MEMORY,
        Reason.TOO_MANY_FILES,
        Reason.BUSY,
    )
)


class ProbeRefusal(Unavailable):
    """A probe that cannot run on this host."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(f"{text}; {reason.hint}")
        self.reason = reason
        self.text = text

    @property
    def hint(self) -> str:
        return self.reason.hint


def of_error(what: str, error: OSError) -> ProbeRefusal:
    """A system call that failed."""
    return _of_errno(what, error.errno or 0)


def of_perf_event(what: str, error: OSError) -> ProbeRefusal:
    """The kernel does not open a perf event.

    Debian's and Ubuntu's kernels know a kernel.perf_event_paranoid of 3 (or 4), and want SYS_ADMIN then.
    """
    refusal, paranoid, status = of_error(what, error), _paranoid(), _own_status()
    is_filtered = re.search(r"^Seccomp:\s*2$", status, re.MULTILINE) is not None
    if error.errno == errno.ENOSYS and is_filtered:  # their profiles answer so what they do not know
        return ProbeRefusal(Reason.SECCOMP, f"{refusal.text}, and a seccomp profile is in force")
    if refusal.reason is not Reason.FORBIDDEN:
        return refusal
    if paranoid > _USUAL_PARANOIA and not _has(status, _SYS_ADMIN):
        return ProbeRefusal(Reason.PARANOID, f"{refusal.text}, for kernel.perf_event_paranoid is {paranoid}")
    if is_filtered:
        return ProbeRefusal(Reason.SECCOMP, f"{refusal.text}, although the capabilities are there")
    return refusal


def of_tracefs(what: str, error: OSError) -> ProbeRefusal:
    """A file of tracefs cannot be read. By its mode it may be for root alone, whatever may be done with BPF."""
    refusal = of_error(what, error)
    return ProbeRefusal(Reason.TRACEFS_CLOSED, refusal.text) if refusal.reason is Reason.FORBIDDEN else refusal


def of_import(error: BaseException) -> ProbeRefusal:
    """`import bcc` failed: it is missing, or the libraries it needs are."""
    if isinstance(error, ModuleNotFoundError) and error.name == "bcc":
        return ProbeRefusal(Reason.NO_BCC, "this Python has no module bcc")
    return ProbeRefusal(Reason.BCC_BROKEN, f"bcc is installed but cannot be used: {error}")


def of_compile(log: str) -> ProbeRefusal:
    """bcc made no module. `log` is what it and clang wrote to standard error."""
    match = re.search(r"incomplete definition of type 'struct tracepoint__([a-z0-9]+)__(\w+)'", log)
    if match is not None:
        return ProbeRefusal(Reason.NO_TRACEPOINT, f"this kernel does not describe the tracepoint {match[1]}:{match[2]}")
    if re.search(r"kconfig\.h' file not found|Unable to find kernel headers", log):
        return ProbeRefusal(Reason.NO_HEADERS, "bcc finds no kernel headers")
    match = re.search(r"could not open bpf map: (\w+), error: (.*)", log)
    if match is not None:
        what = f"the kernel refuses the map {match[1]}"
        code = next((code for code in errno.errorcode if os.strerror(code) == match[2].strip()), 0)
        return _of_errno(what, code) if code else ProbeRefusal(Reason.UNSUPPORTED, f"{what}: {match[2].strip()}")
    return ProbeRefusal(Reason.COMPILE_ERROR, f"clang says: {_first_error(log)}")


def of_load(function: str, code: int, log: str) -> ProbeRefusal:
    """The kernel refused a program with this errno. The verifier's words, if it came that far, are in `log`."""
    what = f"the kernel refuses the program {function}"
    verdict = _verdict(log)
    if _LOCKED_DOWN.search(log):  # kernel/trace/bpf_trace.c: LOCKDOWN_BPF_READ_KERNEL
        text = "kernel lockdown (confidentiality) forbids BPF programs to read the kernel's memory"
        return ProbeRefusal(Reason.FORBIDDEN, f"{what}: {text}")
    if verdict or code == errno.E2BIG:
        return ProbeRefusal(Reason.REFUSED_BY_VERIFIER, f"{what}: {verdict or os.strerror(code)}")
    return _of_errno(what, code)


def has_capabilities(status: str) -> bool:
    """May this process load and attach our programs? `status` is the text of /proc/self/status.

    Source: include/uapi/linux/capability.h, kernel/bpf/syscall.c (bpf_capable, perfmon_capable).
    """
    return _has(status, _SYS_ADMIN) or (_has(status, _PERFMON) and _has(status, _BPF))


def is_capable() -> bool:
    """May this very process load and attach our programs?"""
    return has_capabilities(_own_status())


def _has(status: str, capability: int) -> bool:
    match = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", status, re.MULTILINE)
    return match is not None and bool(int(match[1], 16) >> capability & 1)


def _of_errno(what: str, code: int) -> ProbeRefusal:
    reason = _REASONS.get(code, Reason.UNSUPPORTED)
    if reason is Reason.NO_PERMISSION and is_capable():
        reason = Reason.FORBIDDEN
    return ProbeRefusal(reason, f"{what}: {os.strerror(code)}")


_REASONS = {
    errno.EPERM: Reason.NO_PERMISSION,
    errno.EACCES: Reason.NO_PERMISSION,
    errno.ENOENT: Reason.NO_EVENT,
    errno.ENODEV: Reason.NO_EVENT,
    errno.EOPNOTSUPP: Reason.NO_EVENT,
    errno.ENOMEM: Reason.NO_MEMORY,
    errno.E2BIG: Reason.NO_MEMORY,
    errno.EMFILE: Reason.TOO_MANY_FILES,
    errno.ENFILE: Reason.TOO_MANY_FILES,
    errno.EBUSY: Reason.BUSY,
}


def _paranoid() -> int:
    """kernel.perf_event_paranoid; where it cannot be read, as every kernel has it."""
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return _USUAL_PARANOIA


def _own_status() -> str:
    return Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")


def _first_error(log: str) -> str:
    lines = log.splitlines()
    return next((line.strip() for line in lines if "error:" in line), lines[0].strip() if lines else "nothing")[:300]


def _verdict(log: str) -> str:
    """The verifier's last line before its statistics says what it did not like."""
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("processed ") and number:
            return lines[number - 1].strip()[:300]
    return ""
