"""The files of Kubernetes 1.37: `data` and `dataChecksum`, read by it, by older kubelets, and what comes later."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fixture_trees import FIXTURES
from numaudit.checkpoints.formats import cpu as cpu_checkpoint
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.file import CPU, MEMORY, Checkpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.formats.seal import NewerFormat, Seal
from numaudit.checkpoints.start.outlook import KubeletAtStart, Outlook, examine, unreadable
from numaudit.checkpoints.start.restore import cpu_start_error, kubelet_says, memory_start_error
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.encoding.checksum import fnv1a
from numaudit.topology.nodeset import CpuSet

KUBELET = FIXTURES / "kubelet-1.36"
CROSS = KUBELET / "standalone-restricted/1-cross"
POD_LEVEL = KUBELET / "standalone-pod-level-resources/1"

BLOCK = '{"numaAffinity":[0],"type":"memory","size":512}'
DATA = (
    '"policyName":"static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"memory":{"total":2048,'
    '"systemReserved":512,"allocatable":1536,"reserved":512,"free":1024}},"cells":[]}},'
    '"entries":{"pod":{"container1":[' + BLOCK + "]}}"
)
PODS = ',"podEntries":{"pod":{"memoryBlocks":[' + BLOCK + "]}}"
IN_1_37, IN_1_36 = KubeletAtStart((1, 37)), KubeletAtStart((1, 36))


def sealed(data: str, stored: int | None = None, **outside: object) -> bytes:
    """A file in which everything that 1.37 ignores is nonsense."""
    right = fnv1a(f"(string){data}".encode())
    return json.dumps(
        {
            "policyName": "nonsense",
            "machineState": {},
            "checksum": 7,
            "data": data,
            "dataChecksum": right if stored is None else stored,
            **outside,
        }
    ).encode()


def outlook_of(checkpoint: Checkpoint, kubelet: KubeletAtStart) -> Outlook:
    return examine(checkpoint, checkpoints.verify(checkpoint), None, kubelet)


def names(outlook: Outlook) -> list[str]:
    return [one.name for one in outlook.findings]


def written(folder: Path, name: str, *, pod_level: bool = False) -> bytes:
    """What 1.37 writes in the place of a recorded file."""
    recorded = checkpoints.parse(checkpoints.kind_of(name, b""), (folder / name).read_bytes())
    assert isinstance(recorded, MemoryCheckpoint | CpuCheckpoint)
    made: Checkpoint
    if isinstance(recorded, MemoryCheckpoint):
        made = MemoryCheckpoint.of(recorded.policy_name, recorded.state, pod_level=pod_level, version=(1, 37))
    else:
        made = CpuCheckpoint.of(recorded.policy_name, recorded.state, pod_level=pod_level, version=(1, 37))
    return checkpoints.write(made)


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        ("{" + DATA + "}", 1849615440),
        ('{"unknownField":"value",' + DATA + "}", 2100279793),
        ("{" + DATA + PODS + "}", 637296054),
    ],
)
def test_the_literals_of_the_kubelets_own_tests_verify(data: str, checksum: int) -> None:
    checkpoint = memory_checkpoint.parse(sealed(data, checksum))
    verification = memory_checkpoint.verify(checkpoint)
    assert (verification.form, verification.stored, verification.computed) == ("V3", checksum, checksum)
    assert checkpoint.policy_name == "static"
    assert checkpoint.state.entries["pod"]["container1"][0].size == 512
    assert [*checkpoint.unknown] == (["data.unknownField"] if "unknownField" in data else [])


@pytest.mark.parametrize(
    ("folder", "name", "pod_level", "form"),
    [
        (CROSS, MEMORY, False, "V3"),
        (CROSS, CPU, False, "V4"),
        (POD_LEVEL, MEMORY, True, "V3"),
        (POD_LEVEL, CPU, True, "V4"),
    ],
)
def test_what_1_37_writes_it_reads_again(folder: Path, name: str, pod_level: bool, form: str) -> None:
    data = written(folder, name, pod_level=pod_level)
    checkpoint = checkpoints.parse(checkpoints.kind_of("", data), data)
    assert checkpoints.kind(checkpoint) == name
    assert checkpoints.verify(checkpoint).form == form
    assert checkpoints.write(checkpoint) == data
    keys = list(json.loads(data))
    assert keys[-3:] == ["checksum", "data", "dataChecksum"]
    assert "podEntries" not in keys
    assert isinstance(checkpoint, MemoryCheckpoint | CpuCheckpoint)
    assert bool(checkpoint.pod_entries) == pod_level
    outlook = outlook_of(checkpoint, IN_1_37)
    assert (names(outlook), outlook.starts_now) == ([], "unknown")


@pytest.mark.parametrize("name", [MEMORY, CPU])
def test_an_older_kubelet_reads_the_part_outside_and_loses_pod_entries(name: str) -> None:
    plain, with_pods = written(CROSS, name), written(POD_LEVEL, name, pod_level=True)
    kind = checkpoints.kind_of(name, b"")
    assert names(outlook_of(checkpoints.parse(kind, plain), IN_1_36)) == []
    found = names(outlook_of(checkpoints.parse(kind, with_pods), IN_1_36))
    assert found[0] == "downgrade-loses-pods"
    assert "format-not-accepted" not in found
    error = memory_start_error if name == MEMORY else cpu_start_error
    assert error(plain, version=(1, 36)) is None
    assert error(plain, version=(1, 28)) is None


def test_an_older_kubelet_refuses_a_file_whose_outside_is_damaged_and_1_37_ignores_it() -> None:
    data = sealed("{" + DATA + "}")
    checkpoint = memory_checkpoint.parse(data)
    assert "checksum-mismatch" in names(outlook_of(checkpoint, IN_1_36))
    assert "checkpoint is corrupted" in (memory_start_error(data, version=(1, 36)) or "")
    assert memory_start_error(data, version=(1, 37), policy="static") is None
    assert 'configured policy "Static" differs from state checkpoint policy "static"' in (
        memory_start_error(data, version=(1, 37), policy="Static") or ""
    )


@pytest.mark.parametrize("name", [MEMORY, CPU])
def test_1_37_reads_pod_level_files_of_1_36_with_the_gate_off_too(name: str) -> None:
    data = (POD_LEVEL / name).read_bytes()
    error = memory_start_error if name == MEMORY else cpu_start_error
    assert "checkpoint is corrupted" in (error(data, version=(1, 36)) or "")
    assert error(data, version=(1, 36), pod_level=True) is None
    assert error(data, version=(1, 37)) is None
    checkpoint = checkpoints.parse(checkpoints.kind_of(name, b""), data)
    assert "format-not-accepted" not in names(outlook_of(checkpoint, KubeletAtStart((1, 37), pod_level=False)))
    assert names(outlook_of(checkpoint, KubeletAtStart((1, 37), pod_level=True))) == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (sealed("{" + DATA + "}", 5), "could not load v3 checkpoint: checkpoint is corrupted"),
        (sealed("{" + DATA + "}", 0), "could not load v3 checkpoint: checkpoint is corrupted"),
        (
            sealed('{"policyName":'),
            "could not load v3 checkpoint: failed to deserialize memory manager checkpoint data: "
            "unexpected end of JSON input",
        ),
    ],
)
def test_1_37_does_not_fall_back_when_the_seal_is_damaged(data: bytes, words: str) -> None:
    assert f"could not restore state from checkpoint: {words}, please drain" in (
        memory_start_error(data, version=(1, 37)) or ""
    )
    outlook = outlook_of(memory_checkpoint.parse(data), IN_1_37)
    assert (outlook.is_valid, outlook.starts_now) == (False, "no")


def test_1_37_names_the_cpu_manager_in_its_words() -> None:
    data = sealed('{"policyName":', defaultCpuSet="0-3")
    assert "could not load v4 checkpoint: failed to deserialize cpu manager checkpoint data: unexpected end" in (
        cpu_start_error(data, version=(1, 37)) or ""
    )


def test_a_build_that_has_pod_entries_outside_and_no_checksum_there_is_read_alike() -> None:
    data = (
        '{"policyName":"static","defaultCpuSet":"0-1","entries":{"u":{"a":"2-3"}},"podEntries":{"u":{"cpuSet":"2-3"}}}'
    )
    file = sealed(data, defaultCpuSet="0", podEntries={"u": {"cpuSet": "2"}}, checksum=0)
    checkpoint = cpu_checkpoint.parse(file)
    assert cpu_checkpoint.verify(checkpoint).form == "V4"
    assert checkpoint.state == CPUState(CpuSet.of(0, 1), {"u": {"a": CpuSet.of(2, 3)}}, {"u": CpuSet.of(2, 3)})


def test_a_version_that_no_source_knows_is_one_that_writes_the_file() -> None:
    checkpoint = memory_checkpoint.parse(written(POD_LEVEL, MEMORY, pod_level=True))
    assert names(outlook_of(checkpoint, KubeletAtStart(version_is_known=False))) == []
    assert names(outlook_of(checkpoint, KubeletAtStart()))[0] == "downgrade-loses-pods"


LATER: list[bytes] = [
    sealed('{"policyName":"Static","machineState":{},"entries":[]}'),
    json.dumps({"policyName": "Static", "machineState": {}, "schema": "v4", "payload": "x", "checksum": 9}).encode(),
    json.dumps({"policyName": "Static", "machineState": [], "schema": "v4", "checksum": 9}).encode(),
    json.dumps({"policyName": "Static", "machineState": {}, "checksum": 9, "data": {"entries": {}}}).encode(),
]


@pytest.mark.parametrize("data", LATER, ids=["other types inside", "other keys", "other types", "data no text"])
@pytest.mark.parametrize("kubelet", [IN_1_36, IN_1_37])
def test_a_later_format_is_unknown_and_never_called_damaged(data: bytes, kubelet: KubeletAtStart) -> None:
    if data is LATER[0] and kubelet is IN_1_36:
        return  # an older kubelet does not read what is inside
    try:
        checkpoint = checkpoints.parse(MEMORY, data)
    except NewerFormat as error:
        finding = unreadable(MEMORY, error)
        assert (finding.name, finding.stops) == ("format-unknown", "unknown")
        findings = [finding]
    else:
        outlook = outlook_of(checkpoint, kubelet)
        assert (outlook.is_valid, outlook.starts_now, outlook.starts_after_reboot) == (False, "unknown", "unknown")
        assert kubelet_says(MEMORY, data, outlook, kubelet, "/var/lib/kubelet") is None
        findings = [one for one in outlook.findings if one.name != "unknown-key"]
    assert [one.name for one in findings] == ["format-unknown"]
    text = f"{findings[0].message} {findings[0].remedy}".lower()
    assert "unknown, of a newer kubelet" in text
    assert "damaged" not in text
    assert "drain" not in text


@pytest.mark.parametrize("kubelet", [IN_1_36, IN_1_37])
def test_an_unknown_key_under_a_checksum_that_fits_is_of_a_newer_kubelet(kubelet: KubeletAtStart) -> None:
    content = '{"policyName":"None","machineState":{}%s}'
    later = content % ',"swapEntries":{}'
    outlook = outlook_of(memory_checkpoint.parse(sealed(later, policyName="None", checksum=4236770233)), kubelet)
    (finding,) = outlook.findings
    assert (finding.name, finding.severity, finding.stops) == ("newer-key", "info", "nothing")
    assert (finding.where, outlook.is_valid, outlook.starts_now) == ("data.swapEntries", True, "yes")
    edited = outlook_of(memory_checkpoint.parse(sealed(later, 5)), IN_1_37)
    assert names(edited) == ["unknown-key", "checksum-mismatch"]
    beside = sealed(content % "", policyName="None", checksum=4236770233, swapEntries={})
    assert names(outlook_of(memory_checkpoint.parse(beside), kubelet)) == ["unknown-key"]


def test_a_newer_key_that_stands_in_each_node_is_one_finding() -> None:
    nodes = ",".join(f'"{node}":{{"memoryMap":{{}},"cells":[{node}],"movable":7}}' for node in range(8))
    later = f'{{"policyName":"None","machineState":{{{nodes}}},"swap":0}}'
    outlook = outlook_of(memory_checkpoint.parse(sealed(later, policyName="None", checksum=4236770233)), IN_1_37)
    swap, first = outlook.findings
    assert (first.name, first.where) == ("newer-key", "data.machineState.0.movable")
    assert first.message == (
        "data.machineState.0.movable is not known here, but the checksum covers it; "
        "the same for 7 more that end in .movable"
    )
    assert (swap.name, swap.where) == ("newer-key", "data.swap")


def test_a_changed_file_of_a_known_format_is_still_damaged() -> None:
    checkpoint = memory_checkpoint.parse((CROSS / MEMORY).read_bytes())
    assert names(outlook_of(replace(checkpoint, checksum=1), IN_1_37)) == ["checksum-mismatch"]


def test_a_seal_is_the_checksum_of_the_text() -> None:
    assert Seal.of({"a": "<"}) == Seal('{"a":"\\u003c"}', fnv1a(b'(string){"a":"\\u003c"}'))
