"""The BPF texts, and who may import what."""

from __future__ import annotations

import ast
import re
import struct
from pathlib import Path

import pytest

import numaudit
from made_up.plans import faults_and_time
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import perf_event
from numaudit.probes import pmu
from numaudit.probes.kinds import KINDS
from numaudit.probes.loading import program_sources
from numaudit.probes.loading.loader import ProbeRequest
from numaudit.probes.pmu import PMU

PACKAGE = Path(numaudit.__file__).parent
TEXTS = sorted(program_sources.bpf_folder().glob("*.bpf.c"))
HEADERS = sorted(program_sources.bpf_folder().rglob("*.h"))
SHARED = {"probe_dropped", "probe_narrowed", "probe_watched", "cgroup_switch_cpu"}
"""Maps of the headers."""
HEADERS_LACK = {"CGROUP_SWITCH_CGROUPS_OF_TASK"}
LICENCE = "SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)"


@pytest.fixture(params=[kind.name for kind in KINDS])
def request_(request: pytest.FixtureRequest, tmp_path: Path) -> ProbeRequest:
    memory = tmp_path / "sys/devices/system/memory"
    memory.mkdir(parents=True)
    (memory / "block_size_bytes").write_text("8000000\n")
    (tmp_path / "sys/devices/system/node/node0/memory0").mkdir(parents=True)
    if request.param == PMU.name:
        (tmp_path / "sys/devices/system/cpu").mkdir()
        (tmp_path / "sys/devices/system/cpu/possible").write_text("0-3\n")
        return pmu.request(faults_and_time(), Host.under(tmp_path), 1)
    (kind,) = [one for one in KINDS if one.name == request.param]
    made = kind.request(Host.under(tmp_path), 1, 1)
    assert isinstance(made, ProbeRequest)
    return made


def _text(request: ProbeRequest) -> str:
    return (program_sources.bpf_folder() / f"{request.name}.bpf.c").read_text()


@pytest.mark.parametrize("path", [*TEXTS, *HEADERS], ids=lambda path: path.name)
def test_every_text_for_the_kernel_carries_both_licences(path: Path) -> None:
    assert LICENCE in path.read_text().splitlines()[0]


def test_a_request_names_what_its_text_has(request_: ProbeRequest) -> None:
    text = _text(request_)
    declared = re.findall(r"^BPF_(?:\w+\(|TABLE\(.*, )([a-z]\w+),", text, re.MULTILINE)
    assert set(declared) == {name for name in request_.maps if name not in SHARED}
    assert ("probe_is_watched(" in text) == ("probe_watched" in request_.maps)
    assert ("cgroup_switch_this_cpu(" in text) == ("cgroup_switch_cpu" in request_.maps)
    named = {one.function for one in request_.programs} | set(request_.refused)
    assert set(re.findall(r"^int (\w+)(?<!_on_trial)\(", text, re.MULTILINE)) == named  # that is for benchmarks


def test_a_request_gives_every_number_that_its_text_lacks(request_: ProbeRequest) -> None:
    text = _text(request_)
    fields = {name for program in request_.programs for name in program.fields}
    lacking = set(re.findall(r"PROBE_(?:CONSTANT\(|LOAD\(\w+, )(\w+)\)", text))
    given = {*request_.numbers, *fields}
    assert lacking == given - (HEADERS_LACK if "cgroup_switch_cpu" in request_.maps else set())
    assert not fields & request_.numbers.keys()
    used = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)))
    own = set(re.findall(r"^#define (\w+)", text, re.MULTILINE))
    assert {name for name in used if name.startswith(request_.name.upper())} - own - given == {*request_.defines}


def test_a_request_says_how_many_entries_each_hash_has_room_for(request_: ProbeRequest) -> None:
    text = _text(request_) + (program_sources.bpf_folder() / "probe.bpf.h").read_text()
    hashes = set(re.findall(r"^BPF_(?:PERCPU_HASH\(|HASH\(|TABLE\(\"lru_hash\", .*, )(\w+),", text, re.MULTILINE))
    assert hashes & {*request_.maps} <= request_.entries.keys() <= {*request_.maps}


def test_only_the_compiler_imports_bcc() -> None:
    imports = re.compile(r"^\s*(?:import|from) bcc\b", re.MULTILINE)
    assert {path.name for path in PACKAGE.rglob("*.py") if imports.search(path.read_text())} == {"compiler.py"}


@pytest.mark.parametrize(
    "name",
    [
        "__init__.py",
        "errors.py",
        "kernel/__init__.py",
        "kernel/tracing/syscall.py",
        "probes/__init__.py",
        "probes/loading/bytecode.py",
        "probes/loading/compiler.py",
        "probes/reasons.py",
        "probes/loading/loader_child.py",
    ],
)
def test_the_loader_process_can_be_parsed_by_an_older_python(name: str) -> None:
    ast.parse((PACKAGE / name).read_text(), feature_version=(3, 9))


def test_an_event_is_packed_as_the_kernel_reads_it() -> None:
    event = perf_event.Event(4, 0x1B7, config1=5, sample_period=9, read_format=3, is_inherited=True)
    packed = event.pack()
    assert len(packed) == 128
    assert struct.unpack_from("=IIQQQQQ", packed) == (4, 128, 0x1B7, 9, 0, 3, 1 | 1 << 1 | 1 << 35)
    assert struct.unpack_from("=Q", packed, 56) == (5,)
    assert not any(packed[64:])
