"""How a program gets to a function of the kernel, or why not: bcc's and the kernel's words into ours."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fixture_trees import FIXTURES
from numaudit.doctor.checks import probe_checks
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf, perf_event
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.btf import Function
from numaudit.probes import reasons
from numaudit.probes.loading import function_entry
from numaudit.probes.loading.function_entry import Attached
from numaudit.probes.loading.loader import LoadedProbe
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session
from numaudit.snapshot import Check

LOGS = FIXTURES / "bcc"
UNPRIVILEGED = "Name:\tnumaudit\nCapEff:\t0000000000000000\n"
ALL_POWERFUL = "Name:\tnumaudit\nCapEff:\t000001ffffffffff\n"
PRIVILEGED = "Name:\tnumaudit\nCapEff:\t000000c000000000\n"


@pytest.fixture(autouse=True)
def _unprivileged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "_own_status", lambda: UNPRIVILEGED)


@pytest.mark.parametrize(
    ("log", "reason", "words"),
    [
        ("compile-error", Reason.COMPILE_ERROR, "main.c:1:27: error: use of undeclared identifier 'nonsense'"),
        ("no-kconfig", Reason.NO_HEADERS, "no kernel headers"),
        ("no-headers", Reason.NO_HEADERS, "no kernel headers"),
        ("no-tracepoint", Reason.NO_TRACEPOINT, "kmem:mm_page_alloc"),
        ("map-not-permitted", Reason.NO_PERMISSION, "the map x: Operation not permitted"),
        ("map-too-large", Reason.NO_MEMORY, "the map x: Argument list too long"),
    ],
)
def test_what_bcc_says_of_a_text_becomes_a_reason(log: str, reason: Reason, words: str) -> None:
    refusal = reasons.of_compile((LOGS / f"{log}.txt").read_text())
    assert refusal.reason is reason
    assert words in refusal.text


@pytest.mark.parametrize(
    ("log", "code", "reason", "words"),
    [
        ("verifier", errno.EACCES, Reason.REFUSED_BY_VERIFIER, "R0 invalid mem access 'map_value_or_null'"),
        ("program-too-large", errno.E2BIG, Reason.REFUSED_BY_VERIFIER, "Argument list too long"),
        ("program-not-permitted", errno.EPERM, Reason.NO_PERMISSION, "Operation not permitted"),
        ("program-not-permitted", errno.EINVAL, Reason.UNSUPPORTED, "Invalid argument"),
    ],
)
def test_what_the_kernel_says_of_a_program_becomes_a_reason(log: str, code: int, reason: Reason, words: str) -> None:
    refusal = reasons.of_load("f", code, (LOGS / f"{log}.txt").read_text())
    assert refusal.reason is reason
    assert words in refusal.text


def test_a_refusal_despite_all_capabilities_is_not_called_a_lack_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "_own_status", lambda: PRIVILEGED)
    refusal = reasons.of_load("f", errno.EPERM, "")
    assert refusal.reason is Reason.FORBIDDEN
    assert "seccomp" in refusal.hint


@pytest.mark.parametrize("said", ["program of this type cannot use helper", "unknown func"])
def test_a_kernel_in_lockdown_is_the_reason_and_not_the_verifier(said: str) -> None:
    """The first text is that of Linux 6.12 with lockdown=confidentiality; older verifiers have the other one."""
    refusal = reasons.of_load(
        "f", errno.EINVAL, f"12: (85) call bpf_probe_read_kernel#113\n{said} bpf_probe_read_kernel#113\n"
    )
    assert refusal.reason is Reason.FORBIDDEN
    assert "kernel lockdown (confidentiality)" in refusal.text


@pytest.mark.parametrize(
    ("status", "code", "paranoid", "reason"),
    [
        (f"{PRIVILEGED}Seccomp:\t2\n", errno.EPERM, 2, Reason.SECCOMP),
        (f"{PRIVILEGED}Seccomp:\t0\n", errno.EPERM, 2, Reason.FORBIDDEN),
        (f"{PRIVILEGED}Seccomp:\t2\n", errno.EPERM, 3, Reason.PARANOID),
        (f"{ALL_POWERFUL}Seccomp:\t2\n", errno.ENOSYS, 3, Reason.SECCOMP),
        (f"{UNPRIVILEGED}Seccomp:\t2\n", errno.EPERM, 2, Reason.NO_PERMISSION),
    ],
)
def test_a_profile_that_refuses_perf_events_despite_the_capabilities_is_named(
    status: str, code: int, paranoid: int, reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman's and CRI-O's default answers EPERM with PERFMON alone, and ENOSYS with SYS_ADMIN alone."""
    monkeypatch.setattr(reasons, "_own_status", lambda: status)
    monkeypatch.setattr(reasons, "_paranoid", lambda: paranoid)
    refusal = reasons.of_perf_event("cannot open it", OSError(code, "refused"))
    assert refusal.reason is reason
    assert ("Podman and CRI-O" in refusal.hint) == (reason is Reason.SECCOMP)


@pytest.mark.parametrize(
    ("status", "paranoid", "reason"),
    [
        (UNPRIVILEGED, 2, Reason.NO_PERMISSION),
        (UNPRIVILEGED, 3, Reason.NO_PERMISSION),
        (PRIVILEGED, 2, Reason.FORBIDDEN),
        (PRIVILEGED, 3, Reason.PARANOID),
        (ALL_POWERFUL, 3, Reason.FORBIDDEN),
    ],
)
def test_a_refused_perf_event_has_its_true_reason(
    status: str, paranoid: int, reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel shows of this process and of itself is made up, for few kernels know the value 3."""
    monkeypatch.setattr(reasons, "_own_status", lambda: status)
    monkeypatch.setattr(reasons, "_paranoid", lambda: paranoid)
    refusal = reasons.of_perf_event("cannot open it", OSError(errno.EACCES, "Permission denied"))
    assert refusal.reason is reason
    assert ("kernel.perf_event_paranoid" in str(refusal)) == (reason is Reason.PARANOID)


@pytest.mark.parametrize(
    ("mask", "enough"),
    [
        ("0000000000000000", False),
        ("0000008000000000", False),  # BPF
        ("0000004000000000", False),  # PERFMON
        ("000000c000000000", True),  # both
        ("0000000000200000", True),  # SYS_ADMIN
    ],
)
def test_bpf_with_perfmon_or_sys_admin_is_enough(mask: str, enough: bool) -> None:
    assert reasons.has_capabilities(f"CapPrm:\tffffffffffffffff\nCapEff:\t{mask}\n") is enough


def test_a_missing_bcc_differs_from_one_without_its_libraries() -> None:
    assert reasons.of_import(ModuleNotFoundError("No module named 'bcc'", name="bcc")).reason is Reason.NO_BCC
    broken = reasons.of_import(OSError("libLLVM-14.so.1: cannot open shared object file"))
    assert broken.reason is Reason.BCC_BROKEN
    assert "libLLVM-14" in broken.text


def test_a_refusal_says_what_and_what_to_do() -> None:
    refusal = ProbeRefusal(Reason.NO_TRACEFS, "tracefs is nowhere")
    assert str(refusal) == f"tracefs is nowhere; {Reason.NO_TRACEFS.hint}"


def test_every_kind_of_probe_has_a_check_that_says_what_it_hangs_on_or_why_it_does_not_run() -> None:
    probes = {
        "page_alloc": SimpleNamespace(how=None),
        "hint_faults": SimpleNamespace(how="fentry on task_numa_fault"),
        "cpu_time": ProbeRefusal(Reason.NO_BCC, "this Python has no module bcc"),
    }
    compiled = {"hint_faults": "there is no bytecode hint_faults.json"}
    checks = {check.name: check for check in probe_checks(Session(cast("Any", probes), compiled))}
    assert checks["bpf page_alloc"] == Check("bpf page_alloc", "ok", "runs")
    why = "compiled here, for there is no bytecode hint_faults.json"
    assert checks["bpf hint_faults"].detail == f"runs, fentry on task_numa_fault; {why}"
    refused = Check("bpf cpu_time", "missing", "this Python has no module bcc", Reason.NO_BCC.hint, "no-bcc")
    assert checks["bpf cpu_time"] == refused
    assert checks["bpf migrations"].detail == "it was not asked for"


FUNCTION = "task_numa_fault"
FOUND = Function(4711, ("last_cpupid", "mem_node", "pages", "flags"))
KPROBE, FENTRY = 100, 101
"""Descriptors of programs that are never opened here."""
Fail = Callable[..., int]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    cpus = tmp_path / "sys/devices/system/cpu"
    cpus.mkdir(parents=True)
    (cpus / "online").write_text("2-3\n")
    return Host.under(tmp_path)


def _machine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=name))


def _loaded(refused: Mapping[str, ProbeRefusal] | None = None) -> LoadedProbe:
    programs = {"p_at_kprobe": KPROBE, "p_at_fentry": FENTRY}
    left = {name: program for name, program in programs.items() if name not in (refused or {})}
    return LoadedProbe("p", left, {}, {}, {}, refused or {})


def _raising(error: Exception) -> Fail:
    def fail(*_: object, **__: object) -> int:
        raise error

    return fail


def test_both_ways_are_asked_for_and_either_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(monkeypatch, "x86_64")
    programs = function_entry.programs("p", FUNCTION, FOUND)
    assert [(one.function, one.type, one.btf_id, one.may_fail) for one in programs.wanted] == [
        ("p_at_kprobe", ProgramType.KPROBE, None, True),
        ("p_at_fentry", ProgramType.TRACING, 4711, True),
    ]
    assert programs.refused == {}


def test_a_machine_whose_registers_are_not_known_has_fentry_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(monkeypatch, "ppc64le")
    programs = function_entry.programs("p", FUNCTION, FOUND)
    assert [one.function for one in programs.wanted] == ["p_at_fentry"]
    assert "ppc64le" in programs.refused["p_at_kprobe"].text
    assert function_entry.registers() == (0, 0, 0, 0)


def test_a_kernel_without_btf_has_the_kprobe_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _machine(monkeypatch, "aarch64")
    no_btf = ProbeRefusal(Reason.NO_BTF, "this kernel has no BTF")
    programs = function_entry.programs("p", FUNCTION, no_btf)
    assert [one.function for one in programs.wanted] == ["p_at_kprobe"]
    assert programs.refused == {"p_at_fentry": no_btf}
    assert FUNCTION in function_entry.programs("p", FUNCTION, None).refused["p_at_fentry"].text


def test_the_kprobe_comes_first_on_a_cpu_that_is_online(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    cpus, programs = [], []

    def open_kprobe(_host: Host, _function: str, *, cpu: int) -> int:
        cpus.append(cpu)
        return 7

    monkeypatch.setattr(perf_event, "open_kprobe", open_kprobe)
    monkeypatch.setattr(perf_event, "set_program", lambda *pair: programs.append(pair))
    monkeypatch.setattr(perf_event, "enable", lambda _: None)
    assert function_entry.attach(host, _loaded(), "p", FUNCTION) == Attached("kprobe", 7)
    assert (cpus, programs) == ([2], [(7, KPROBE)])


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError(2, "no such event"), PermissionError(13, "not allowed"), OSError(22, "invalid")],
    ids=["no kprobes", "not allowed", "invalid"],
)
def test_fentry_is_used_when_the_kprobe_cannot_be_opened(
    host: Host, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    monkeypatch.setattr(perf_event, "open_kprobe", _raising(error))
    monkeypatch.setattr(bpf, "open_tracing", lambda program: program + 1000)
    assert function_entry.attach(host, _loaded(), "p", FUNCTION) == Attached("fentry", FENTRY + 1000)


def test_fentry_is_used_when_the_program_may_not_run_at_the_kprobe(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    event = os.open(os.devnull, os.O_RDONLY)
    monkeypatch.setattr(perf_event, "open_kprobe", lambda *_, **__: event)
    monkeypatch.setattr(perf_event, "set_program", _raising(PermissionError(1, "not permitted")))
    monkeypatch.setattr(bpf, "open_tracing", lambda program: program + 1000)
    assert function_entry.attach(host, _loaded(), "p", FUNCTION).way == "fentry"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(event)


def test_fentry_is_used_when_the_kprobes_program_was_not_loaded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpf, "open_tracing", lambda program: program + 1000)
    loaded = _loaded({"p_at_kprobe": ProbeRefusal(Reason.FORBIDDEN, "the kernel refuses the program")})
    assert function_entry.attach(host, loaded, "p", FUNCTION).way == "fentry"


def test_when_both_are_refused_both_reasons_are_given(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_event, "open_kprobe", _raising(FileNotFoundError(2, "no such event")))
    loaded = _loaded({"p_at_fentry": ProbeRefusal(Reason.FORBIDDEN, "the kernel refuses the program p_at_fentry")})
    with pytest.raises(ProbeRefusal) as refusal:
        function_entry.attach(host, loaded, "p", FUNCTION)
    assert refusal.value.reason is Reason.NO_KPROBES
    assert refusal.value.text == (
        "no program can be put on task_numa_fault: kprobe: this kernel has no kprobes, or hides the function; "
        "fentry: the kernel refuses the program p_at_fentry"
    )
