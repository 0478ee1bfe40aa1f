"""Which way a program gets to a function of the kernel: kprobe, else fentry, else both reasons."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf, perf_event
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.btf import Function
from numaudit.probes.loading import function_entry
from numaudit.probes.loading.function_entry import Attached
from numaudit.probes.loading.loader import LoadedProbe
from numaudit.probes.reasons import ProbeRefusal, Reason

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
