"""Would the kubelet start with its dra_manager_state? Asked of a recorded node that was given one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kubelets.node_of_step import node_of
from kubelets.recorded import read_machine
from made_up.reports import tick
from numaudit.capture.tree import capture
from numaudit.cli.main import call
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.exporters.catalogue import TICK_METRICS
from numaudit.intent.kubelet import CheckpointHealth
from numaudit.kernel.host import Host
from numaudit.report.build import build
from numaudit.snapshot import Snapshot

RUN = "standalone-single-numa-node"
CLAIMS = "dra_manager_state"
MADE = Path(__file__).parents[2] / "support/kubelets/dra" / CLAIMS
CORRUPTED = (
    "failed to create claimInfo cache: error calling GetOrCreate() on checkpoint state: failed to get checkpoint "
    "dra_manager_state: checkpoint is corrupted"
)

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    found = node_of(f"{RUN}/1-running", tmp_path)
    shutil.copy(MADE, found.kubelet / CLAIMS)
    return found


def damage(host: Host) -> None:
    file = host.kubelet / CLAIMS
    file.write_bytes(file.read_bytes().replace(b"cpus-10", b"cpus-11"))


def health(host: Host) -> CheckpointHealth:
    (one,) = [one for one in IntentCollector(host).ask(()).intent.checkpoints if one.file == CLAIMS]
    return one


def metrics(host: Host) -> dict[str, dict[tuple[str, ...], float]]:
    intent = IntentCollector(host).ask(()).intent
    report = build(Snapshot(0.0, read_machine(RUN), "v2", intent=intent))
    return {one.name: dict(one.values(tick(report))) for one in TICK_METRICS if one.name.startswith("state_")}


def test_a_sound_file_starts_and_needs_no_machine(host: Host) -> None:
    found = health(host).outlook
    assert (found.valid, found.starts_now, found.starts_after_reboot, found.findings) == (True, "yes", "yes", ())
    shutil.rmtree(host.nodes)
    assert health(host).outlook.starts_now == "yes"


def test_a_corrupt_file_stops_the_kubelet_in_its_own_words(host: Host) -> None:
    damage(host)
    found = health(host)
    assert (found.problem, found.outlook.valid, found.outlook.starts_now) == ("checksum", False, "no")
    assert found.outlook.refusal == CORRUPTED


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "unexpected end of JSON input"), (b"{}x", "invalid character 'x' after top-level value")],
)
def test_a_torn_file_stops_it_with_the_words_of_go(host: Host, data: bytes, words: str) -> None:
    (host.kubelet / CLAIMS).write_bytes(data)
    found = health(host).outlook
    assert (found.starts_now, found.refusal) == ("no", CORRUPTED.replace("checkpoint is corrupted", words))


def test_a_kubelet_before_1_34_does_not_read_the_file_unless_its_gate_is_on(host: Host, capsys: Capture) -> None:
    damage(host)

    def starts(version: str) -> str:
        root = ("--root", str(host.root), "--kubernetes-version", version, "-o", "json")
        call(["state", "verify", str(host.kubelet / CLAIMS), *root])
        answer: str = json.loads(capsys.readouterr().out)["startsNow"]
        return answer

    assert (starts("1.33"), starts("1.34")) == ("yes", "no")
    with (host.root / "etc/kubernetes/kubelet.yaml").open("a") as configuration:
        configuration.write("featureGates: {DynamicResourceAllocation: true}\n")
    assert starts("1.33") == "no"
    (host.kubelet / CLAIMS).write_bytes(b"")
    assert starts("1.33") == "no"


def test_a_node_without_the_file_lacks_nothing(tmp_path: Path) -> None:
    intent = IntentCollector(node_of(f"{RUN}/1-running", tmp_path)).ask(()).intent
    assert CLAIMS not in {one.file for one in intent.checkpoints}
    assert "claim checkpoint" not in {one.name for one in intent.sources}


def test_the_health_metrics_cover_the_file(host: Host) -> None:
    found = metrics(host)
    assert (found["state_valid"][CLAIMS,], found["state_restart_safe"][CLAIMS,]) == (1, 1)
    damage(host)
    found = metrics(host)
    assert (found["state_valid"][CLAIMS,], found["state_restart_safe"][CLAIMS,]) == (0, 0)
    assert found["state_problem_info"][CLAIMS, "checksum-mismatch"] == 1


def test_a_restart_is_forecast_to_fail_with_a_corrupt_file(host: Host, capsys: Capture) -> None:
    root = ("--root", str(host.root))
    assert call(["forecast", *root, "-o", "json"]) == 0
    damage(host)
    capsys.readouterr()
    assert call(["forecast", *root, "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["starts"], found["refusal"]) == ("no", CORRUPTED)
    assert [one["file"] for one in found["obstacles"] if one["name"] == "checksum-mismatch"] == [CLAIMS]


def test_state_verify_show_and_diff_cover_the_file(host: Host, capsys: Capture, tmp_path: Path) -> None:
    root = ("--root", str(host.root))
    assert call(["state", "verify", *root]) == 0
    assert f"/var/lib/kubelet/{CLAIMS}\n  checkpoint            {CLAIMS}\n" in capsys.readouterr().out
    assert call(["state", "show", str(host.kubelet / CLAIMS), *root]) == 0
    row = capsys.readouterr().out.splitlines()[-1]
    cdi = "dra.k8s.io/cpu=claim-7d1f0c52-5b8e-4f0a-9a53-2f6f3b0f0a11"
    assert row.startswith("default/cpus-10  ")
    assert row.endswith(f"  dra.cpu  node-a/cpudevnuma001  cpus      {cdi}")
    other = tmp_path / "other"
    other.write_bytes(MADE.read_bytes().replace(b"cpus-10", b"cpus-11"))
    assert call(["state", "diff", str(MADE), str(other)]) == 1
    assert "Data.ClaimInfoStateList" in capsys.readouterr().out
    damage(host)
    assert call(["state", "verify", *root]) == 1
    assert "kubelet says          failed to create claimInfo cache" in capsys.readouterr().out


def test_a_capture_has_the_file(host: Host, tmp_path: Path) -> None:
    (host.root / "proc/mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    (host.root / "sys/fs/cgroup").mkdir(parents=True)
    capture(host, tmp_path / "captured")
    assert (tmp_path / "captured/var/lib/kubelet" / CLAIMS).read_bytes() == MADE.read_bytes()
