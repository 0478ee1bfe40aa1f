"""`numaudit state`: what it prints, and its exit codes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import IO, Any

import pytest

from documentation.schemas import validate
from fixture_trees import FIXTURES
from numaudit import __version__
from numaudit.checkpoints.formats import claims as claim_checkpoint
from numaudit.checkpoints.formats import device as device_checkpoint
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats import seal
from numaudit.checkpoints.formats.claims import Claim, ClaimCheckpoint, ClaimDevice
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint, PodDevices
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.start.findings import MEANINGS
from numaudit.cli.main import call
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.topology.nodeset import CpuSet
from processes.agent_process import PATIENCE, eventually

TESTS = Path(__file__).parents[2]
NODE = FIXTURES / "kubernetes-four-nodes"
ONE_NODE = FIXTURES / "single-node-hybrid"
WITH_A_KUBELET = {"hugepages-short", "kubernetes-cluster", "kubernetes-four-nodes", "misaligned-node", "page-sizes"}
KUBELET = FIXTURES / "kubelet-1.36"
CROSS = KUBELET / "standalone-restricted/1-cross/memory_manager_state"
MORE = KUBELET / "standalone-restricted/2-more/memory_manager_state"
POD_LEVEL = KUBELET / "standalone-pod-level-resources/1/memory_manager_state"
OVERLAP = FIXTURES / "memory-manager-state/groups-overlap/memory_manager_state"

GONE = "11909391e6eae33a104bafa75980e9ea"
"""UID of default/gu-small-numanode."""

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: object, code: int = 0) -> str:
    """The standard output; the standard error is empty."""
    state = () if arguments[0] == "headroom" else ("state",)
    assert call([*state, *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return out


def document(capsys: Capture, *arguments: object, code: int = 0) -> dict[str, Any]:
    """The JSON document, which fits the schema of its kind."""
    found = json.loads(run(capsys, *arguments, "-o", "json", code=code))
    validate(found, found["kind"])
    assert isinstance(found, dict)
    return found


def copy_of_the_node(folder: Path) -> Path:
    """A tree with a machine and the kubelet's files, to be changed."""
    shutil.copytree(NODE / "sys/devices/system", folder / "sys/devices/system", symlinks=True)
    shutil.copytree(NODE / "var/lib/kubelet", folder / "var/lib/kubelet")
    (folder / "proc").mkdir()
    return folder


@pytest.mark.parametrize("name", ["memory_manager_state", "cpu_manager_state"])
def test_a_file_that_was_compared_with_no_machine_says_so_beside_unknown(capsys: Capture, name: str) -> None:
    why = "unknown: not compared with the machine that it is from; run `numaudit state verify` there\n"
    assert f"  kubelet starts now    {why}" in run(capsys, "verify", CROSS.parent / name)
    assert why not in run(capsys, "verify", "--root", NODE)


def test_an_unknown_start_that_a_finding_explains_gives_no_other_reason(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "cpu_manager_state"
    path.write_text('{"policyName":"none","defaultCpuSet":"1-3","entries":{"id":"4-6"},"checksum":5}')
    assert "  kubelet starts now    unknown\n" in run(capsys, "verify", path, code=1)


def test_all_files_of_a_host_are_verified_against_its_machine(capsys: Capture) -> None:
    found = document(capsys, "verify", "--root", NODE)
    assert (found["apiVersion"], found["kind"], found["valid"]) == ("numaudit/v1", "StateVerificationList", True)
    memory, cpu = found["items"]
    assert (memory["checkpoint"], memory["format"], memory["replayedOn"]) == ("memory_manager_state", "V1", "machine")
    assert memory["storedChecksum"] == memory["computedChecksum"] == 935026745
    assert (memory["startsNow"], memory["startsAfterReboot"]) == ("yes", "at risk")
    assert (cpu["checkpoint"], cpu["format"], cpu["startsNow"]) == ("cpu_manager_state", "V2", "yes")


def test_a_file_of_a_format_that_is_too_old_is_not_called_valid(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "cpu_manager_state"
    path.write_text('{"policyName":"none","defaultCpuSet":"1-3","entries":{"id":"4-6"},"checksum":5}')
    found = document(capsys, "verify", path, code=1)
    assert [one["name"] for one in found["findings"]] == ["format-old"]
    assert (found["valid"], found["startsNow"], found["refusal"]) == (False, "unknown", None)


def test_a_lone_file_is_verified_without_a_machine(capsys: Capture) -> None:
    found = document(capsys, "verify", CROSS)
    assert found.pop("takenAt") is not None
    assert found == {
        "apiVersion": "numaudit/v1",
        "kind": "StateVerification",
        "host": None,
        "generator": {"name": "numaudit", "version": __version__},
        "file": str(CROSS),
        "checkpoint": "memory_manager_state",
        "kubelet": {
            "version": "1.36",
            "policy": None,
            "podLevelResourceManagers": None,
            "sources": {"version": "default"},
        },
        "format": "V1",
        "policyName": "Static",
        "storedChecksum": 3462717663,
        "computedChecksum": 3462717663,
        "valid": True,
        "replayedOn": "file",
        "machineProblem": None,
        "refusal": None,
        "firstDifference": None,
        "startsNow": "unknown",
        "startsAfterReboot": "unknown",
        "findings": [],
        "pods": {},
    }


def test_a_file_that_is_not_valid_has_findings_with_remedies_and_exit_code_1(capsys: Capture) -> None:
    found = document(capsys, "verify", OVERLAP, code=1)
    assert found["findings"] == [
        {
            "name": "groups-overlap",
            "severity": "error",
            "message": "node 1 is in group [0, 1], but node 0 in [0]",
            "remedy": MEANINGS["groups-overlap"].remedy,
            "where": "machineState.1.cells",
            "stops": "maybe",
        }
    ]


def test_the_first_difference_to_the_machine_is_named(capsys: Capture) -> None:
    found = document(capsys, "verify", CROSS, "--root", NODE, code=1)
    assert found["replayedOn"] == "machine"
    assert found["refusal"] == "[memorymanager] the expected machine state is different from the real one"
    assert found["firstDifference"] == "node 0: memory total is 1016623104 in the file, 1055182848 by replay"
    assert [one["name"] for one in found["findings"]] == ["memory-total-drift"] * 3 + ["reboot-may-change-totals"]


def restore_error(why: str, file: str = "memory_manager_state") -> str:
    manager = file.split("_", maxsplit=1)[0].replace("cpu", "CPU")
    return (
        f"could not restore state from checkpoint: {why}, please drain this node and delete the {manager} manager "
        f'checkpoint file "/var/lib/kubelet/{file}" before restarting Kubelet'
    )


def test_the_kubelets_words_for_what_stops_it_are_shown(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "memory_manager_state"
    for data, why in (
        (CROSS.read_bytes()[:-1], "unexpected end of JSON input"),
        (CROSS.read_bytes().replace(b'"size":1', b'"size":2'), "checkpoint is corrupted"),
    ):
        path.write_bytes(data)
        assert document(capsys, "verify", path, code=1)["refusal"] == restore_error(why)
        assert restore_error(why) in run(capsys, "verify", path, code=1)
    path.write_bytes(b'{"policyName":"\xff"}')
    assert document(capsys, "verify", path, code=1)["refusal"] is None


def test_a_file_of_another_policy_than_the_given_one_stops_the_kubelet(capsys: Capture) -> None:
    found = document(capsys, "verify", CROSS, "--policy", "None", code=1)
    why = '[memorymanager] configured policy "None" differs from state checkpoint policy "Static"'
    assert (found["refusal"], found["startsNow"]) == (restore_error(why), "no")
    assert [one["name"] for one in found["findings"]] == ["policy-changed"]
    assert found["replayedOn"] == "file"
    assert found["firstDifference"] is None
    assert document(capsys, "verify", CROSS, "--policy", "Static")["valid"]
    cpu = CROSS.parent / "cpu_manager_state"
    found = document(capsys, "verify", cpu, "--policy", "none", code=1)
    why = 'configured policy "none" differs from state checkpoint policy "static"'
    assert found["refusal"] == restore_error(why, "cpu_manager_state")


def test_the_policies_of_a_host_are_those_of_its_configuration_unless_given(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    (root / "var/lib/kubelet/config.yaml").write_text("memoryManagerPolicy: Static\ncpuManagerPolicy: none\n")
    memory, cpu = document(capsys, "verify", "--root", root, code=1)["items"]
    assert (memory["valid"], cpu["valid"]) == (True, False)
    file = root / "var/lib/kubelet/cpu_manager_state"
    assert document(capsys, "verify", file, "--root", root, code=1)["findings"][0]["name"] == "policy-changed"
    memory, cpu = document(capsys, "verify", "--root", root, "--policy", "static", code=0)["items"]
    assert (memory["valid"], cpu["valid"]) == (True, True)
    memory, cpu = document(capsys, "verify", "--root", root, "--policy", "None", "--policy", "static", code=1)["items"]
    assert (memory["valid"], cpu["valid"]) == (False, True)


def test_what_the_cpu_manager_says_is_shown(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    file = root / "var/lib/kubelet/cpu_manager_state"
    file.write_bytes(checkpoints.write(CpuCheckpoint.of("static", CPUState(CpuSet.parse("0-8")))))
    found = document(capsys, "verify", file, "--root", root, code=1)
    assert found["refusal"] == 'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-8"'


def test_huge_pages_changed_under_the_kubelet_are_seen(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    (root / "sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages").write_text("12\n")
    found = document(capsys, "verify", "--root", root, code=1)
    memory = found["items"][0]
    assert (found["valid"], memory["valid"], memory["startsNow"]) == (False, False, "no")
    assert memory["firstDifference"] == "node 2: hugepages-2Mi total is 33554432 in the file, 25165824 by replay"
    assert memory["findings"][0]["name"] == "huge-pages-changed"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b'{"checksum":-1}', "checksum: expected a whole number from 0 to 18446744073709551615, found -1"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b"[" * 100_000, "not a checkpoint: nested too deep"),
        (b"x" * 10_000_000, "not JSON: Expecting value at character 0 of 10000000"),
    ],
)
def test_a_damaged_file_is_reported_and_left_alone(
    capsys: Capture, tmp_path: Path, damage: bytes, message: str
) -> None:
    path = tmp_path / "memory_manager_state"
    path.write_bytes(damage)
    for verb in ("verify", "show"):
        found = document(capsys, verb, path, code=1)
        found = found.get("verification", found)
        assert (found["valid"], found["startsNow"]) == (False, "no")
        assert [(one["name"], one["message"]) for one in found["findings"]] == [("unreadable", message)]
        assert "unreadable" in run(capsys, verb, path, code=1)
    assert path.read_bytes() == damage


def test_a_file_too_large_to_be_a_checkpoint_is_not_read(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "memory_manager_state"
    with path.open("wb") as file:
        file.truncate(17 << 20)
    assert call(["state", "verify", str(path)]) == 3
    assert "is larger than 16777216 bytes" in capsys.readouterr().err


def _unread(pipe: IO[bytes] | None) -> int:
    """How many unread bytes are in it: ioctl_tty(2), FIONREAD."""
    assert pipe is not None
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize(("verb", "code"), [("verify", 0), ("show", 0), ("diff", 1)])
def test_a_checkpoint_may_come_out_of_a_slow_pipe(verb: str, code: int, name: str) -> None:
    program = "from numaudit.cli.main import run; run()"
    other = [str(MORE)] if verb == "diff" else []
    command = [sys.executable, "-c", program, "state", verb, name, *other, "-o", "json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        data = CROSS.read_bytes()
        process.stdin.write(data[:100])
        process.stdin.flush()
        assert eventually(lambda: _unread(process.stdin) == 0)
        process.stdin.write(data[100:])
        process.stdin.close()
        found = json.loads(process.stdout.read())
    assert process.returncode == code
    assert found.get("verification", found).get("valid", True)


def test_a_closed_standard_input_is_reported(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert call(["state", "verify", "-"]) == 3
    assert capsys.readouterr().err == "numaudit: cannot read the standard input: it is closed\n"


def test_a_pipe_without_an_end_is_given_up(capsys: Capture) -> None:
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as endless:
        assert endless.stdout is not None
        assert call(["state", "verify", f"/dev/fd/{endless.stdout.fileno()}"]) == 3
        endless.kill()
    assert "it gives more than 16777216 bytes" in capsys.readouterr().err


def test_a_file_of_another_name_is_known_by_its_keys(capsys: Capture, tmp_path: Path) -> None:
    for name in ("memory_manager_state", "cpu_manager_state"):
        copy = tmp_path / f"{name}.bak"
        shutil.copy(CROSS.parent / name, copy)
        assert document(capsys, "verify", copy)["checkpoint"] == name


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("other", b"{}", "it has none of the keys machineState, defaultCpuSet and Data"),
        ("other", b"hello", "not JSON: Expecting value at character 0 of 5"),
        ("other", b"", "it is empty"),
        ("memory_manager_state", b"\n", "it is empty"),
    ],
)
@pytest.mark.parametrize("verb", ["show", "verify", "diff"])
def test_another_file_is_named_as_such_and_no_node_is_to_be_drained_for_it(
    capsys: Capture, tmp_path: Path, verb: str, name: str, content: bytes, why: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert call(["state", verb, str(path)]) == 2
    files = "memory_manager_state, cpu_manager_state, kubelet_internal_checkpoint or dra_manager_state"
    message = f"numaudit: {path}: this is not a checkpoint: {why}; give a {files}\n"
    assert capsys.readouterr() == ("", message)


def test_a_checkpoint_of_the_kubelet_itself_may_be_empty_and_stops_it(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    file = root / "var/lib/kubelet/memory_manager_state"
    file.write_bytes(b"")
    found = document(capsys, "verify", file, "--root", root, code=1)
    assert (found["startsNow"], found["findings"][0]["name"]) == ("no", "unreadable")


def written_by_1_37(folder: Path) -> Path:
    """The pod-level file of 1.36 as 1.37 would have written it."""
    old = memory_checkpoint.parse(POD_LEVEL.read_bytes())
    new = MemoryCheckpoint.of(old.policy_name, old.state, pod_level=True, version=(1, 37))
    file = folder / "memory_manager_state"
    file.write_bytes(seal.write(new))
    return file


def test_an_upgrade_and_a_downgrade_are_told_apart(capsys: Capture, tmp_path: Path) -> None:
    new = written_by_1_37(tmp_path)
    for arguments in ([], ["--kubernetes-version", "1.37"]):
        found = document(capsys, "verify", new, *arguments)
        assert (found["format"], found["valid"], found["findings"]) == ("V3", True, [])
        assert found["kubelet"]["version"] == "1.37"
    found = document(capsys, "verify", new, "--kubernetes-version", "1.36", code=1)
    assert [one["name"] for one in found["findings"]] == ["downgrade-loses-pods", "entries-do-not-add-up"]
    assert (found["format"], found["startsNow"]) == ("V3", "no")
    found = document(capsys, "verify", POD_LEVEL, "--kubernetes-version", "1.37")
    assert (found["format"], found["findings"]) == ("V2", [])
    assert document(capsys, "diff", new, POD_LEVEL)["differences"] == []


def test_the_gate_for_drift_alone_accepts_none(capsys: Capture) -> None:
    gate = ["--feature-gates", "MemoryManagerDriftTolerance=true"]
    found = document(capsys, "verify", CROSS, "--root", NODE, *gate, code=1)
    assert (found["startsNow"], found["findings"][0]["name"]) == ("no", "memory-total-drift")
    assert call(["state", "verify", str(CROSS), "--feature-gates", "MemoryManagerDrift=true"]) == 2
    assert "unknown gate 'MemoryManagerDrift'" in (err := capsys.readouterr().err)
    assert "MemoryManagerDriftTolerance is the nearest" in err


def test_the_kubelet_asked_about_counts(capsys: Capture) -> None:
    found = document(capsys, "verify", POD_LEVEL)
    assert (found["valid"], found["replayedOn"], found["firstDifference"]) == (True, "file", None)
    assert document(capsys, "verify", POD_LEVEL, "--feature-gates", "PodLevelResourceManagers=true")["valid"]
    for arguments in (
        ["--feature-gates", "AllAlpha=true,PodLevelResourceManagers=false"],
        ["--kubernetes-version", "v1.32.1"],
    ):
        found = document(capsys, "verify", POD_LEVEL, *arguments, code=1)
        assert [one["name"] for one in found["findings"]] == ["format-not-accepted"]


@pytest.mark.parametrize(("version", "taken_for"), [("1.35", "1.32"), ("1.99", "1.38"), ("1.5", "1.23")])
def test_a_version_that_is_not_known_exactly_is_taken_for_another_with_a_notice(
    capsys: Capture, version: str, taken_for: str
) -> None:
    assert call(["state", "verify", str(CROSS), "--kubernetes-version", version]) == 0
    how = "the newest that is known here" if taken_for == "1.38" else "whose kubelet is known exactly"
    notice = f"numaudit: Kubernetes {version} is taken for {taken_for}, {how}\n"
    assert capsys.readouterr().err == notice


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "/no/such/file"], "does not exist"),
        (["verify", "--root", NODE, "--policy", "Strict"], "the Memory Manager has None and Static"),
        (["verify", CROSS, "--kubernetes-version", "new"], "not a Kubernetes version such as 1.36"),
        (["verify", CROSS, "--feature-gates", "PodLevelResourceManagers"], "write it as PodLevelResourceManagers=true"),
        (["diff", CROSS, CROSS.parent / "cpu_manager_state"], "give two of a kind"),
        (["diff", CROSS.parent / "cpu_manager_state", "--root", NODE], "can only be compared with a second file"),
    ],
)
def test_wrong_usage_is_reported_with_exit_code_2(capsys: Capture, arguments: list[object], message: str) -> None:
    assert call(["state", *map(str, arguments)]) == 2
    assert message in capsys.readouterr().err


def test_a_host_without_a_kubelet_cannot_answer(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    shutil.rmtree(root / "var")
    assert call(["state", "verify", "--root", str(root)]) == 3
    assert "no checkpoint under /var/lib/kubelet: no kubelet has run here" in capsys.readouterr().err


def test_a_node_whose_memory_cannot_be_read_is_not_compared(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    (root / "sys/devices/system/node/node1/meminfo").unlink()
    assert call(["state", "verify", "--root", str(root)]) == 3
    assert "cannot read MemTotal of nodes [1]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gone", "why"), [("node/node1/meminfo", "cannot read MemTotal of nodes [1]"), ("node", "shows no node")]
)
def test_what_a_file_says_is_shown_although_the_machine_cannot_be_read(
    capsys: Capture, tmp_path: Path, gone: str, why: str
) -> None:
    root = copy_of_the_node(tmp_path / "node")
    missing = root / "sys/devices/system" / gone
    shutil.rmtree(missing) if missing.is_dir() else missing.unlink()
    memory, cpu = document(capsys, "show", "--root", root)["items"]
    assert memory["content"] == json.loads((root / "var/lib/kubelet/memory_manager_state").read_bytes())
    found = memory["verification"]
    assert why in found["machineProblem"]
    assert (found["valid"], found["replayedOn"], found["startsNow"]) == (True, "file", "unknown")
    assert why in cpu["verification"]["machineProblem"]
    assert f"  machine               not compared: {found['machineProblem']}" in run(capsys, "show", "--root", root)


def test_show_judges_as_verify_does(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    (root / "var/lib/kubelet/config.yaml").write_text("memoryManagerPolicy: None\ncpuManagerPolicy: static\n")
    shown = [one["verification"] for one in document(capsys, "show", "--root", root)["items"]]
    assert shown == document(capsys, "verify", "--root", root, code=1)["items"]
    assert [one["startsNow"] for one in shown] == ["no", "yes"]


def test_the_files_are_found_in_the_folder_that_the_kubelet_was_started_with(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    (root / "data").mkdir()
    (root / "var/lib/kubelet").rename(root / "data/kubelet")
    (root / "proc/7").mkdir()
    (root / "proc/7/comm").write_text("kubelet\n")
    (root / "proc/7/cmdline").write_bytes(b"kubelet\0--root-dir=/data/kubelet\0--memory-manager-policy=Static\0")
    for verb in ("show", "verify"):
        items = document(capsys, verb, "--root", root, code=0 if verb == "show" else 1)["items"]
        found = items[0].get("verification", items[0])
        assert found["file"] == "/data/kubelet/memory_manager_state"  # as the host calls it, wherever the tree is
    assert '"/data/kubelet/cpu_manager_state"' in str(items[1]["refusal"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
@pytest.mark.parametrize("verb", ["show", "verify", "diff"])
def test_a_file_that_may_not_be_read_cannot_be_answered_for(verb: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        file = Path(folder) / "memory_manager_state"
        file.write_bytes(CROSS.read_bytes())
        file.chmod(0o600)
        program = "from numaudit.cli.main import run; run()"
        done = subprocess.run(
            [sys.executable, "-c", program, "state", verb, str(file)],
            capture_output=True,
            text=True,
            user=65534,
            timeout=PATIENCE,
            check=False,
        )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"numaudit: cannot read {file}: only root may read it; run as root\n"


def test_show_prints_the_whole_file_in_its_own_words(capsys: Capture) -> None:
    found = document(capsys, "show", CROSS)
    assert found["content"] == json.loads(CROSS.read_bytes())
    assert found["verification"]["valid"]
    assert [one["content"]["policyName"] for one in document(capsys, "show", "--root", NODE)["items"]] == [
        "Static",
        "static",
    ]


def test_show_has_a_table_of_nodes_and_one_of_assignments(capsys: Capture) -> None:
    lines = run(capsys, "show", CROSS).splitlines()
    assert lines[0] == str(CROSS)
    assert "  checksum              3462717663, as computed" in lines
    assert ["0", "0-1", "1", "memory", "970Mi", "200Mi", "738Mi", "738Mi", "0"] in [line.split() for line in lines]
    assert "d3c641155287298d49d5b4d96d7ddab9  app        memory  0-1    1.4Gi" in lines


def test_show_names_the_pods_and_marks_those_that_are_gone(capsys: Capture, tmp_path: Path) -> None:
    root = shutil.copytree(NODE, tmp_path / "node", symlinks=True)
    pods = json.loads((root / "numaudit/pods.json").read_text())
    pods["items"] = [one for one in pods["items"] if one["metadata"]["name"] != "gu-small-numanode"]
    (root / "numaudit/pods.json").write_text(json.dumps(pods))
    rows = [line.split() for line in run(capsys, "show", "--root", root).splitlines()]
    assert ["default/gu-two-numanode", "a", "memory", "1", "128Mi"] in rows
    assert ["default/gu-two-numanode", "a", "2"] in rows
    assert ["default/gu-small-numanode", "(stale)", "app", "memory", "0", "200Mi"] in rows
    assert ["default/gu-small-numanode", "(stale)", "app", "1"] in rows
    named = document(capsys, "show", "--root", root)["items"][0]["verification"]["pods"]
    assert named[GONE] == {"namespace": "default", "pod": "gu-small-numanode", "stale": True}
    assert {"namespace": "default", "pod": "gu-two-numanode", "stale": False} in named.values()


def test_without_a_list_of_pods_the_log_names_them_and_none_is_called_stale(capsys: Capture, tmp_path: Path) -> None:
    root = shutil.copytree(NODE, tmp_path / "node", symlinks=True)
    (root / "numaudit/pods.json").unlink()
    text = run(capsys, "show", "--root", root)
    assert "default/gu-small-numanode" in text
    assert "stale" not in text


def test_a_difference_names_the_pods(capsys: Capture, tmp_path: Path) -> None:
    root = shutil.copytree(NODE, tmp_path / "node", symlinks=True)
    file = root / "var/lib/kubelet/memory_manager_state"
    text = run(capsys, "diff", file, CROSS, "--root", root, code=1)
    assert any(line.startswith("entries.default/gu-two-numanode") for line in text.splitlines())
    assert "default/gu-two-numanode" not in run(capsys, "diff", file, CROSS, code=1)


def test_each_remedy_is_printed_once_after_the_findings_that_it_is_for(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path)
    for node in (1, 2):
        shutil.rmtree(root / f"sys/devices/system/node/node{node}/hugepages")
    lines = run(capsys, "verify", "--root", root, code=1).splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("  error: huge-page-sizes-changed: ")]
    assert len(errors) == 2
    remedy = f"    -> {MEANINGS['huge-page-sizes-changed'].remedy}"
    assert [number for number, line in enumerate(lines) if line == remedy] == [errors[-1] + 1]


def test_show_has_whole_pods_shared_cpus_and_devices(capsys: Capture, tmp_path: Path) -> None:
    assert "fa499850f2e2a52f13167a7b3d4a65c8  (whole pod)  memory  2      200Mi" in run(capsys, "show", POD_LEVEL)
    cpus = run(capsys, "show", POD_LEVEL.parent / "cpu_manager_state")
    assert "(shared)                                       0,6-7" in cpus
    assert "4b2b5407482bb7e6c64357a490c8912e  (whole pod)  2-3" in cpus
    path = tmp_path / "kubelet_internal_checkpoint"
    held = PodDevices("uid", "app\x1b[31m", "vendor.example/nic", {-1: ("x",), 1: ("d1", "d2")}, None)
    path.write_bytes(device_checkpoint.write(DeviceCheckpoint.of((held,), {"vendor.example/nic": ("d1",)})))
    lines = run(capsys, "show", path).splitlines()
    assert "uid           app\\x1b[31m  vendor.example/nic  none  x" in lines
    assert "uid           app\\x1b[31m  vendor.example/nic  1     d1 d2" in lines
    assert "(registered)               vendor.example/nic        d1" in lines


def test_a_corrupt_device_file_is_an_error_that_does_not_stop_the_kubelet(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "kubelet_internal_checkpoint"
    path.write_text("{")
    found = document(capsys, "verify", path, code=1)
    assert [one["name"] for one in found["findings"]] == ["devices-lost"]
    assert (found["valid"], found["startsNow"]) == (False, "yes")


def test_two_files_are_compared_value_by_value(capsys: Capture) -> None:
    found = document(capsys, "diff", CROSS, MORE, code=1)
    assert (found["kind"], found["left"], found["right"]) == ("StateDifference", str(CROSS), str(MORE))
    changes = {one["where"]: (one["left"], one["right"]) for one in found["differences"]}
    assert changes == {
        "machineState.2.numberOfAssignments": (0, 2),
        "machineState.2.memoryMap.memory.reserved": (0, 343932928),
        "machineState.2.memoryMap.memory.free": (1022693376, 678760448),
        "entries.11909391e6eae33a104bafa75980e9ea": (
            None,
            {"app": [{"numaAffinity": [2], "type": "memory", "size": 209715200}]},
        ),
        "entries.a9fe37c423860202d68590454b378447": (
            None,
            {"app": [{"numaAffinity": [2], "type": "memory", "size": 134217728}]},
        ),
    }
    lines = run(capsys, "diff", CROSS, MORE, code=1).splitlines()
    assert lines[0] == f"A: {CROSS}"
    assert ["machineState.2.memoryMap.memory.reserved", "0", "328Mi", "(343932928)"] in [line.split() for line in lines]


def test_entries_of_a_list_are_compared_with_those_of_the_same_name(capsys: Capture, tmp_path: Path) -> None:
    """Devices of containers, and claims with their devices, which the kubelet writes in any order."""

    def held(container: str, *ids: str) -> PodDevices:
        return PodDevices("uid", container, "vendor.example/nic", {1: ids}, None)

    def claim(uid: str, *devices: ClaimDevice) -> Claim:
        return Claim(uid, uid, "default", ("p",), {"dra.example": devices})

    first, second = ClaimDevice("pool", "numa-0", None, ("r",), ()), ClaimDevice("pool", "numa-1", None, ("r",), ())
    files = {
        "a-devices": device_checkpoint.write(DeviceCheckpoint.of((held("x", "d1"), held("y", "d2")), {})),
        "b-devices": device_checkpoint.write(DeviceCheckpoint.of((held("y", "d3"), held("x", "d1")), {})),
        "a-claims": claim_checkpoint.write(ClaimCheckpoint.of((claim("one", first), claim("two")))),
        "b-claims": claim_checkpoint.write(ClaimCheckpoint.of((claim("two"), claim("one", second, first)))),
    }
    found = {}
    for kind in ("devices", "claims"):
        paths = [tmp_path / f"{side}-{kind}" for side in "ab"]
        for path in paths:
            path.write_bytes(files[path.name])
        found[kind] = {one["where"]: one for one in document(capsys, "diff", *paths, code=1)["differences"]}
    (where,) = found["devices"]
    assert where == "Data.PodDeviceEntries.uid/y/vendor.example/nic.DeviceIDs.1"
    assert (found["devices"][where]["left"], found["devices"][where]["right"]) == (["d2"], ["d3"])
    (where,) = found["claims"]
    assert where == "Data.ClaimInfoStateList.one.DriverState.dra.example.Devices.pool/numa-1"
    assert (found["claims"][where]["left"], found["claims"][where]["right"]["DeviceName"]) == (None, "numa-1")


def test_a_list_with_two_entries_of_one_name_is_compared_as_a_whole(capsys: Capture, tmp_path: Path) -> None:
    held = PodDevices("uid", "x", "vendor.example/nic", {1: ("d1",)}, None)
    paths = [tmp_path / name for name in "ab"]
    for path, entries in zip(paths, ((held, held), (held,)), strict=True):
        path.write_bytes(device_checkpoint.write(DeviceCheckpoint.of(entries, {})))
    (found,) = document(capsys, "diff", *paths, code=1)["differences"]
    assert found["where"] == "Data.PodDeviceEntries"
    assert (len(found["left"]), len(found["right"])) == (2, 1)


def test_the_same_files_have_no_difference(capsys: Capture) -> None:
    assert document(capsys, "diff", CROSS, CROSS)["differences"] == []
    assert run(capsys, "diff", CROSS, CROSS).endswith("are the same\n")


def with_keys(path: Path, **keys: object) -> Path:
    """CROSS with keys of its own, which no known format has."""
    path.write_text(json.dumps(json.loads(CROSS.read_bytes()) | keys))
    return path


def test_files_that_differ_only_in_a_key_of_no_known_format_are_not_called_the_same(
    capsys: Capture, tmp_path: Path
) -> None:
    left = with_keys(tmp_path / "a", later={"of": 5})
    call(["state", "diff", str(left), str(with_keys(tmp_path / "b", later={"of": 6}))])
    assert [line.split() for line in capsys.readouterr().out.splitlines()[-2:]] == [
        ["WHERE", "A", "B"],
        ["later", '{"of":5}', '{"of":6}'],
    ]
    for right, other in ((with_keys(tmp_path / "b"), None), (with_keys(tmp_path / "c", later="\ud800"), "?")):
        assert call(["state", "diff", str(left), str(right), "-o", "json"]) == 1
        (found,) = json.loads(capsys.readouterr().out)["differences"]
        assert (found["where"], found["left"], found["right"]) == ("later", {"of": 5}, other)
    assert call(["state", "diff", str(left), str(left)]) == 0
    assert capsys.readouterr().out.endswith("are the same\n")


def test_a_key_of_no_known_format_is_no_difference_to_the_machine(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path)
    own = root / "var/lib/kubelet/memory_manager_state"
    own.write_text(json.dumps(json.loads(own.read_bytes()) | {"later": 1}))
    assert call(["state", "diff", str(own), "--root", str(root)]) == 0
    assert capsys.readouterr().out.endswith("are the same\n")


def test_a_file_is_compared_with_the_replay_on_the_machine(capsys: Capture) -> None:
    own = NODE / "var/lib/kubelet/memory_manager_state"
    assert document(capsys, "diff", own, "--root", NODE)["differences"] == []
    found = document(capsys, "diff", CROSS, "--root", NODE, code=1)
    changes = {one["where"]: (one["left"], one["right"]) for one in found["differences"]}
    assert found["right"] == "this machine"
    assert changes["machineState.0.memoryMap.memory.total"] == (1016623104, 1055182848)
    # The same 1400 MiB, first node first, on a node 0 that has more room.
    assert changes["machineState.1.memoryMap.memory.reserved"] == (694652928, 656093184)


def test_a_machine_that_lost_a_node_is_a_difference(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    shutil.rmtree(root / "sys/devices/system/node/node2")
    (root / "sys/devices/system/node/online").write_text("0-1,3\n")
    own = root / "var/lib/kubelet/memory_manager_state"
    found = document(capsys, "diff", own, "--root", root, code=1)
    changes = {one["where"]: (one["left"], one["right"]) for one in found["differences"]}
    assert changes["machineState.2"][0]["cells"] == [2]
    assert changes["machineState.2"][1] is None
    # What was on that node is left out of the replay; the rest is charged as before.
    assert {where.partition(".")[0] for where in changes} == {"machineState", "entries"}
    assert all(right == [] for where, (_, right) in changes.items() if where.startswith("entries."))
    assert not any(where.startswith(("machineState.0", "machineState.1")) for where in changes)
    assert [one["where"] for one in document(capsys, "diff", OVERLAP, "--root", ONE_NODE, code=1)["differences"]]


def test_a_pod_as_a_whole_on_a_lost_node_is_a_difference(capsys: Capture, tmp_path: Path) -> None:
    root = copy_of_the_node(tmp_path / "node")
    shutil.rmtree(root / "sys/devices/system/node/node2")
    (root / "sys/devices/system/node/online").write_text("0-1,3\n")
    found = document(capsys, "diff", POD_LEVEL, "--root", root, code=1)
    changes = {one["where"]: one["right"] for one in found["differences"]}
    assert changes["podEntries.fa499850f2e2a52f13167a7b3d4a65c8.memoryBlocks"] is None


def test_a_damaged_file_is_not_compared(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "memory_manager_state"
    path.write_text("{")
    assert call(["state", "diff", str(path), str(CROSS)]) == 1
    assert "not JSON" in capsys.readouterr().err
    path.write_bytes(CROSS.read_bytes().replace(b"1468006400", b"1468006401"))
    assert call(["state", "diff", str(path), str(CROSS)]) == 1
    assert "the checksum is wrong; the comparison ignores that" in capsys.readouterr().err


def test_every_finding_is_explained_in_the_documentation() -> None:
    page = (TESTS.parent / "docs/state.md").read_text()
    assert [name for name in MEANINGS if f"`{name}`" not in page] == []


def test_the_pods_that_keep_a_group_together_are_named(capsys: Capture) -> None:
    text = run(capsys, "show", CROSS)
    held = json.loads(CROSS.read_bytes())["entries"]
    (line,) = [one for one in text.splitlines() if one.startswith("group ")]
    (wide,) = [uid for uid, own in held.items() for (block,) in own.values() if len(block["numaAffinity"]) > 1]
    assert line.startswith("group 0-1 is kept together by ")
    assert wide in line
    assert "Largest Guaranteed container: unknown, because the Topology Manager's policy is unknown" in text


def test_the_headroom_of_a_node_adds_up_to_its_memory_map(capsys: Capture) -> None:
    found = document(capsys, "headroom", "--root", NODE)
    state = json.loads((NODE / "var/lib/kubelet/memory_manager_state").read_bytes())
    for name, node in state["machineState"].items():
        held: dict[str, int] = {}
        for one in found["holders"]:
            for resource, amount in one["bytes"].items() if one["group"] == [int(name)] else ():
                held[resource] = held.get(resource, 0) + amount
        reserved = {resource: table["reserved"] for resource, table in node["memoryMap"].items() if table["reserved"]}
        assert held == reserved
    assert {one["pod"] for one in found["holders"]} >= {"gu-small-numanode", "gu-two-numanode"}
    assert found["admissible"][0]["bytes"] == max(
        node["memoryMap"]["memory"]["free"] for node in state["machineState"].values()
    )
    assert all(one["unpromisedBytes"] > 0 for one in found["nodes"])


def test_the_headroom_with_cpus_is_what_a_pod_can_have(capsys: Capture, tmp_path: Path) -> None:
    """By the library's own admission of a pod: with the fraction of a CPU that is left, with more, and with a CPU."""
    text = run(capsys, "headroom", "--root", NODE)
    assert "(with at most 200m of CPU; none with whole CPUs, of which 0 of 7 are free)" in text
    found = document(capsys, "headroom", "--root", NODE)
    assert (found["wholeCpuBytes"], found["unrequestedCpus"]) == (0, 0.2)
    assert [(one["freeCpus"], one["cpus"]) for one in found["nodes"]] == [(0, 1), (0, 2), (0, 2), (0, 2)]
    most = found["admissible"][0]["bytes"]
    assert [_fits(capsys, tmp_path, cpu, most) for cpu in ("200m", "201m", "1")] == [True, False, False]
    assert not _fits(capsys, tmp_path, "200m", most + 1)


def _fits(capsys: Capture, folder: Path, cpu: str, memory: int) -> bool:
    pod = folder / "pod.json"
    container = {"name": "b", "resources": {"limits": {"cpu": cpu, "memory": memory}}}
    pod.write_text(json.dumps({"metadata": {"name": "a"}, "spec": {"containers": [container]}}))
    call(["fit", "-f", str(pod), "--root", str(NODE), "-o", "json"])
    return bool(json.loads(capsys.readouterr().out)["admitted"])


def test_the_state_document_has_the_same_headroom_but_for_what_no_file_says(capsys: Capture) -> None:
    whole = document(capsys, "headroom", "--root", NODE)
    shown = next(one["headroom"] for one in document(capsys, "show", "--root", NODE)["items"] if one["headroom"])
    same = ("tables", "admissible", "fragmentationRatio", "holders")
    assert {name: shown[name] for name in same} == {name: whole[name] for name in same}
    assert all(one["unpromisedBytes"] is None for one in shown["nodes"])


@pytest.mark.parametrize("host", sorted({sys.parent.name for sys in FIXTURES.glob("*/sys")} - WITH_A_KUBELET))
def test_a_host_without_a_kubelet_has_no_headroom(capsys: Capture, host: str) -> None:
    assert call(["headroom", "--root", str(FIXTURES / host)]) == 3
    assert capsys.readouterr().err == (
        "numaudit: the kubelet's memory map is not known on this host: no kubelet: no "
        "process of that name is visible, and there is no "
        "/var/lib/kubelet; run it on a node, as root, or give a captured one with --root\n"
    )


@pytest.mark.parametrize(
    ("file", "policy", "said"),
    [
        (None, "Static", "no file /var/lib/kubelet/memory_manager_state, though the Memory Manager's policy is Static"),
        (b"", "Static", "`numaudit state verify` says more"),
        (b"{}", "Static", "`numaudit state verify` says more"),
        (None, "None", "the kubelet's Memory Manager has the policy None, which promises nothing"),
    ],
)
def test_without_a_memory_map_the_headroom_says_why(
    capsys: Capture, tmp_path: Path, file: bytes | None, policy: str, said: str
) -> None:
    root = shutil.copytree(NODE, tmp_path / "host", symlinks=True)
    (root / "var/lib/kubelet/memory_manager_state").unlink()
    if file is not None:
        (root / "var/lib/kubelet/memory_manager_state").write_bytes(file)
    settings = root / "etc/kubernetes/kubelet.yaml"
    settings.write_text(settings.read_text().replace("memoryManagerPolicy: Static", f"memoryManagerPolicy: {policy}"))
    assert call(["headroom", "--root", str(root)]) == 3
    assert said in capsys.readouterr().err
