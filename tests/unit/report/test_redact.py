"""A report to be shown in public names nobody, and says the same otherwise."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from documentation.documents import without_times
from documentation.schemas import schema
from fixture_trees import FIXTURES
from hosts.hostile_names import HOSTILE
from made_up.reports import container, report
from numaudit.api.document import encode
from numaudit.api.redact import NAMES, PATHS, TEXTS, redact
from numaudit.cli.main import call
from numaudit.encoding.value import Origin
from numaudit.errors import printable
from numaudit.evaluation.verdicts import Cause, Verdict
from numaudit.report.processes import MappingsReport
from numaudit.report.values import ContainerReport, Report
from numaudit.snapshot import ProcessMapping, SharedMemory

KEY = b"0" * 32
HIDDEN = re.compile(r"x-[0-9a-f]{10}")
HOSTS = sorted(sys.parent.name for sys in FIXTURES.glob("*/sys"))
_OF_EVERY_HOST = re.compile(
    r"kubepods(-besteffort|-burstable)?(\.slice)?|besteffort|burstable|(system|user|machine)\.slice|init\.scope|system|kubelet|"
)
_NEVER_NAMES = {
    "CheckpointReport": {"file", "format", "policyName", "problem"},
    "CollectorOutcome": {"source"},
    "ContainerDevice": {"address"},
    "ContainerReport": {"allowedCpus", "findings", "runtime"},
    "Counted": {"basis"},
    "Declaration": {"cpus", "launcher", "source", "unresolved", "doubt"},  # left out of public reports
    "Finding": {"name"},
    "Generator": {"name", "version"},
    "HeldDevice": {"address"},  # left out of public reports
    "HintFaultsReport": {"flags"},
    "Intended": {"cpus"},
    "PromiseOfSource": {"cpus"},
    "KubeletReport": {
        "cpuManagerOptions", "cpuManagerPolicy", "memoryManagerPolicy", "reservedCpus", "sharedCpus",
        "topologyManagerOptions", "topologyManagerPolicy", "topologyManagerScope", "version",
    },
    "MappedBytes": {"name"},
    "HugePagesOfContainer": {"type"},
    "MappedMemory": {"kind", "policy"},
    "HugePagesReport": {"type"},
    "MemoryTableReport": {"type"},
    "MigratedReport": {"reason"},
    "NodeReport": {"cpus"},
    "Overhead": {"steps"},
    "OverheadOfProbe": {"probe"},
    "ProbeAccount": {"probe"},
    "ProcessMapping": {"kind", "policy"},
    "ProcessesReport": {"accessesUncounted", "noneUsedRemotely"},
    "Rank": {"detail"},  # the cause alone in public reports
    "RankProblem": {"detail"},
    "RemoteStall": {"latencySource"},
    "Report": {"cgroupMode"},
    "Residual": {"types"},
    "SetupResult": {"area", "id", "remedy", "source", "why"},
    "StateFinding": {"name"},
    "TaskMoveReport": {"event"},
    "ThreadGroup": {"cpus", "policy"},
}  # fmt: skip
"""Texts that are of the kernel's, the kubelet's or our own vocabulary, or are sets of CPUs."""


def _is_text(of: dict[str, Any]) -> bool:
    inner = [*of.get("anyOf", ()), *filter(None, (of.get("items"), of.get("additionalProperties")))]
    return (of.get("type") == "string" and not {"enum", "format"} & of.keys()) or any(
        _is_text(one) for one in inner if one is not True
    )


def test_every_text_of_a_report_is_hidden_searched_or_known_to_name_nobody() -> None:
    whole = schema("Report")
    parts = {"Report": whole, **whole["$defs"]}
    texts = {
        name: {key for key, of in part.get("properties", {}).items() if _is_text(of)} for name, part in parts.items()
    }
    texts["Report"] -= {"apiVersion", "kind", "host"}  # the host's name is hidden by whoever knows it
    handled = {name: set(keys) for name, keys in _NEVER_NAMES.items()}
    for table in (NAMES, PATHS, TEXTS):
        for of, keys in table.items():
            shown = dict(zip(of.__struct_fields__, of.__struct_encode_fields__, strict=True))  # type: ignore[attr-defined]
            handled.setdefault(of.__name__, set()).update(shown[key] for key in keys)
    assert handled == {name: keys for name, keys in texts.items() if keys}


def _redact(of: Report, key: bytes, also: Collection[str] = ()) -> Report:
    return redact(of, key, of, also)


# Captured hosts


def _secrets(value: object, key: str = "") -> Iterator[str]:
    """Every name in a document, by the key it is under; parts of a path with their slash."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, key)
    elif isinstance(value, str) and key in ("host", "pod", "podUid", "containerId", "workload"):
        yield value
    elif isinstance(value, str) and key == "path":
        yield from (f"/{part}" for part in value.split("/") if not _OF_EVERY_HOST.fullmatch(part))


def _output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert call(["report", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", HOSTS)
def test_no_output_of_a_captured_host_has_a_name_of_it(
    capsys: pytest.CaptureFixture[str], fixtures: Path, name: str
) -> None:
    root = ("--root", str(fixtures / name))
    secrets = set(_secrets(json.loads(_output(capsys, *root, "-o", "json"))))
    assert secrets
    for output in ("table", "wide", "json", "html"):
        shown = _output(capsys, *root, "-o", output, "--redact")
        assert [one for one in secrets if re.search(rf"{re.escape(one)}(?![\w-])", shown)] == []
        assert HIDDEN.search(shown)


@pytest.mark.parametrize("name", HOSTS)
def test_all_figures_of_a_captured_host_stay(capsys: pytest.CaptureFixture[str], fixtures: Path, name: str) -> None:
    def figures(value: object) -> object:
        """The document without its texts."""
        if isinstance(value, dict):
            return {key: figures(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [figures(inner) for inner in value]
        return None if isinstance(value, str) else value

    root = ("--root", str(fixtures / name), "-o", "json")
    plain, hidden = (without_times(_output(capsys, *root, *more)) for more in ((), ("--redact",)))
    assert figures(hidden) == figures(plain)
    kept = ("kind", "qos", "allowedMemoryNodes", "allowedCpus")
    both = zip(hidden["containers"], plain["containers"], strict=True)
    assert all(one[key] == other[key] for one, other in both for key in kept)


def test_a_report_of_one_pod_does_not_name_the_others(capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    narrowed = ("gu-small-numanode", "--root", str(fixtures / "misaligned-node"), "-o", "json")
    assert "belongs to default/gu-two-numanode/a" in _output(capsys, *narrowed)
    assert "numanode" not in _output(capsys, *narrowed, "--redact")


# Words


def _saying(text: str, *containers: ContainerReport) -> str:
    """What becomes of a verdict's reason."""
    of = report(container(7, "db-0", "db", "prod"))
    one = replace(of.containers[0], verdict=Verdict("spilled", text, None, (), None))
    hidden = _redact(replace(of, containers=(one, *containers)), KEY, ["worker-3.example.com", "worker-3"])
    verdict = hidden.containers[0].verdict
    assert verdict is not None
    return HIDDEN.sub("*", verdict.reason)


@pytest.mark.parametrize(
    ("said", "hidden"),
    [
        ("CPU 2 belongs to prod/db-0/db; CPU 3 is shared", "CPU 2 belongs to */*/*; CPU 3 is shared"),
        ("prod/db-0: refused", "*/*: refused"),
        ("pod db-0. Then", "pod *. Then"),
        ("would refuse prod/never-seen/log: no", "would refuse */*/*: no"),
        ('container "db-0" of (db-0)', 'container "*" of (*)'),
        ("db-0_prod(uid-of-db-0)", "*_*(*)"),
        ("/kubepods.slice/db-0/db-7.scope", "/kubepods.slice/*/*"),
        ("/kubepods.slice/kubepods-system.slice/db-7.scope", "/kubepods.slice/kubepods-system.slice/*"),
        ("/kubepods/system/burstable/db-0", "/kubepods/system/burstable/*"),
        (f"id {7:064x} is {0:012}", "id * is *"),
        ("gone: 123e4567-e89b-12d3-a456-426614174000", "gone: *"),
        ("on worker-3 and worker-3.example.com", "on * and *"),
        ("db-01 and xdb-0 are others", "db-01 and xdb-0 are others"),
        ("it may use nodes 0,2, but was promised node 2 only", "it may use nodes 0,2, but was promised node 2 only"),
    ],
)
def test_names_are_hidden_wherever_a_text_has_them(said: str, hidden: str) -> None:
    assert _saying(said) == hidden


def test_a_container_that_is_called_as_a_word_of_ours_is_hidden_in_names_alone() -> None:
    (other,) = report(container(8, "web-0", "memory", "a")).containers
    assert (
        _saying("a node has no memory for a/web-0/memory: spilled", other) == "a node has no memory for */*/*: spilled"
    )


def test_a_word_of_ours_behind_a_slash_is_hidden_where_it_is_a_name() -> None:
    (other,) = report(container(8, "web-0", "memory", "a")).containers
    assert _saying("no memory below kubepods/memory", other) == "no memory below kubepods/*"


def test_a_name_has_one_word_in_a_report_and_another_with_another_key() -> None:
    of = report(container(7, "db-0", "db"), container(8, "db-0", "log"))
    one, other = _redact(of, KEY).containers
    assert one.pod == other.pod
    assert one.namespace == other.namespace
    assert one.container != other.container
    assert _redact(of, b"1" * 32).containers[0].pod != one.pod
    assert _redact(of, KEY) == _redact(of, KEY)


def test_processes_and_files_are_hidden_too() -> None:
    of = report(container())
    elsewhere = ProcessMapping(1, "payroll", None, "shmem", "default", "/dev/shm/payroll-cache", {1: 4096})
    shared = SharedMemory("shmem", "/dev/shm/payroll-cache", {1: 4096}, None)
    mappings = MappingsReport((), (), (), 1, 1, (shared,), None, {})
    verdict = Verdict("spilled", "", None, (Cause("shared-memory", "4K of /dev/shm/payroll-cache"),), None)
    one = replace(of.containers[0], elsewhere=(elsewhere,), mappings=mappings, verdict=verdict)
    text = encode("Report", _redact(replace(of, containers=(one,)), KEY), Origin(None, of.taken_at)).decode()
    assert "payroll" not in text
    assert len(set(re.findall(r"/dev/shm/(x-[0-9a-f]{10})", text))) == 1


@pytest.mark.parametrize("name", [*HOSTILE, "n" * 4096])
def test_hostile_names_are_hidden_as_others_are(name: str) -> None:
    of: Report = report(container(7, name, name, name))
    one = _redact(of, KEY).containers[0]
    assert all(HIDDEN.fullmatch(text or "") for text in (one.namespace, one.pod, one.container))
    assert one.path is not None
    assert set(HIDDEN.sub("*", one.path).split("/")) <= {"", "kubepods.slice", "*"}


@pytest.mark.parametrize("name", ["a\x00bcd", "caf\u00e9 bar", "\u202enamed", "byte\udcff"])
def test_odd_names_are_hidden_in_texts_as_they_are_and_as_they_are_printed(name: str) -> None:
    (odd,) = report(container(8, "web-0", name)).containers
    for said in (name, printable(name)):
        assert not {"bcd", "caf\u00e9", "bar", "named", "byte"} & set(re.findall(r"\w+", _saying(f"of {said}", odd)))
