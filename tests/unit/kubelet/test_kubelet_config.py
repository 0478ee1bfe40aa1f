"""The kubelet's settings: file, drop-in files, flags, /configz."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelets.steps import RUNS
from numaudit.containermanager.memory.reserved import read_reserved_memory
from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.host import Host
from numaudit.kubelet.parsers import config as kubelet_config
from numaudit.kubelet.parsers.config import merge, parse_configz, settle
from numaudit.kubelet.sources import presence
from numaudit.kubelet.sources import process as kubelet_process
from numaudit.kubelet.sources.presence import KubeletProcess
from numaudit.memorymanager.configuration import ConfigDocument, known_flags, read_flags
from numaudit.topology.quantity import Quantity

FILE = (RUNS / "standalone-restricted/kubelet-config.k1.yaml").read_text()


def parse_file(text: str) -> ConfigDocument:
    return kubelet_config.parse_file(text.encode(), "config.yaml")


def test_a_recorded_file_gives_policies_and_scope() -> None:
    config = settle(parse_file(FILE), {}, "file")
    assert config.memory_manager_policy == "Static"
    assert config.cpu_manager_policy == "static"
    assert config.topology_manager_policy == "restricted"
    assert config.topology_manager_scope == "container"
    assert set(config.origins.values()) == {"file"}


def test_what_a_file_that_was_read_leaves_out_has_the_kubelets_default() -> None:
    config = settle({}, {}, "file")
    assert (config.memory_manager_policy, config.cpu_manager_policy) == ("None", "none")
    assert (config.topology_manager_policy, config.topology_manager_scope) == ("none", "container")
    assert set(config.origins.values()) == {"default"}


def test_flags_win_over_the_file() -> None:
    flags = read_flags(["--memory-manager-policy=None", "--topology-manager-scope", "pod", "--v=4"])
    config = settle(merge([parse_file(FILE)], flags.fields), flags.fields, "file")
    assert config.memory_manager_policy == "None"
    assert config.origins["memory_manager_policy"] == "flag"
    assert config.topology_manager_scope == "pod"
    assert config.topology_manager_policy == "restricted"
    assert config.origins["topology_manager_policy"] == "file"


def test_a_map_by_a_flag_replaces_the_files_map_but_feature_gates_are_merged() -> None:
    file = {"kubeReserved": {"cpu": "1", "memory": "1Gi"}, "featureGates": {"A": True, "B": True}}
    flags = read_flags(["--kube-reserved=memory=2Gi", "--feature-gates=B=false,C=true"])
    merged = merge([file], flags.fields)
    assert merged["kubeReserved"] == {"memory": "2Gi"}
    assert settle(merged, flags.fields, "file").feature_gates == {"A": True, "B": False, "C": True}


def test_the_last_of_a_repeated_flag_counts_and_lists_grow() -> None:
    flags = read_flags(
        [
            "--cpu-manager-policy=none",
            "--cpu_manager_policy=static",
            "--reserved-memory=0:memory=1Gi,hugepages-2Mi=4Mi",
            "--reserved-memory=1:memory=500Mi",
            "--eviction-hard=memory.available<200Mi,nodefs.available<10%",
            "--read-only-port=0",
        ]
    )
    assert flags.fields["cpuManagerPolicy"] == "static"
    assert flags.fields["evictionHard"] == {"memory.available": "200Mi", "nodefs.available": "10%"}
    assert flags.fields["readOnlyPort"] == 0
    first, second = read_reserved_memory(flags.fields["reservedMemory"])
    assert (first.numa_node, second.numa_node) == (0, 1)
    assert first.limits["hugepages-2Mi"] == Quantity.parse("4Mi")


@pytest.mark.parametrize(
    "flag", ["--port=x", "--kube-reserved=memory", "--feature-gates=A=maybe", "--reserved-memory=zero"]
)
def test_a_flag_the_kubelet_would_refuse_is_refused(flag: str) -> None:
    with pytest.raises(ParseError, match=flag.partition("=")[0]):
        read_flags([flag])


def test_only_flags_that_are_read_are_captured() -> None:
    arguments = ["--config=/etc/k.yaml", "--token-secret=hush", "--root-dir", "/data/kubelet", "--v", "4"]
    assert known_flags(arguments) == ("--config=/etc/k.yaml", "--root-dir=/data/kubelet")


def test_drop_in_files_are_laid_over_the_file_in_order() -> None:
    file = parse_file("{memoryManagerPolicy: Static, evictionHard: {a: '1', b: '2'}, reservedMemory: [1, 2]}")
    first = parse_file("{evictionHard: {b: '3'}, reservedMemory: [3]}")
    second = parse_file("kind: KubeletConfiguration\nmemoryManagerPolicy: null")
    merged = merge([file, first, second], {})
    assert merged["evictionHard"] == {"a": "1", "b": "3"}
    assert merged["reservedMemory"] == [3]
    assert "memoryManagerPolicy" not in merged


def test_configz_is_what_is_in_force() -> None:
    config = settle(parse_configz(b'{"kubeletconfig":{"memoryManagerPolicy":"Static"}}'), {}, "configz")
    assert config.memory_manager_policy == "Static"
    assert config.origins["memory_manager_policy"] == "configz"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"kubeletconfig":[]}'])
def test_another_answer_than_configz_is_refused(body: bytes) -> None:
    with pytest.raises(ParseError):
        parse_configz(body)


@pytest.mark.parametrize("text", ["- a", "kind: Pod", "a: [", "text", "!!python/object:os.system {}"])
def test_another_file_than_a_kubelet_configuration_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_file(text)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ParseError):
        settle(merge([parse_file(text)], {}), {}, "file")
    with contextlib.suppress(ParseError):
        parse_configz(text.encode("utf-8", "surrogatepass"))
    for name in ("config", "port", "kube-reserved", "feature-gates", "reserved-memory"):
        with contextlib.suppress(ParseError):
            read_flags([f"--{name}={text}"])


def host(tmp_path: Path, arguments: list[str] | None) -> Host:
    process = tmp_path / "proc/77"
    process.mkdir(parents=True)
    (process / "comm").write_text("kubelet\n")
    if arguments is not None:
        (process / "cmdline").write_bytes("\0".join(["/usr/bin/kubelet", *arguments, ""]).encode())
    return Host(tmp_path)


def test_the_process_names_its_files_and_its_flags_win(tmp_path: Path) -> None:
    one = host(tmp_path, ["--config=/etc/k.yaml", "--config-dir=/etc/k.d", "--cpu-manager-policy=none"])
    (tmp_path / "etc/k.d/sub").mkdir(parents=True)
    (tmp_path / "etc/k.yaml").write_text(FILE)
    (tmp_path / "etc/k.d/10-a.conf").write_text("topologyManagerScope: pod")
    (tmp_path / "etc/k.d/sub/20.conf").write_text("topologyManagerPolicy: best-effort")
    (tmp_path / "etc/k.d/ignored.yaml").write_text("topologyManagerPolicy: none")
    assert presence.find(one).pid == 77
    settings = kubelet_process.read_settings(one, KubeletProcess(77))
    assert settings.reason is None
    config = settings.config
    assert (config.topology_manager_policy, config.topology_manager_scope) == ("best-effort", "pod")
    assert (config.memory_manager_policy, config.cpu_manager_policy) == ("Static", "none")


def test_a_process_without_flags_has_the_defaults(tmp_path: Path) -> None:
    settings = kubelet_process.read_settings(host(tmp_path, []), KubeletProcess(77))
    assert settings.config.memory_manager_policy == "None"
    assert settings.reason is None


def test_without_a_visible_command_line_a_file_in_a_usual_place_is_read_and_that_is_reported(tmp_path: Path) -> None:
    one = host(tmp_path, None)
    with pytest.raises(Unavailable, match=r"cannot read /proc/77/cmdline.*usual place"):
        kubelet_process.read_settings(one, KubeletProcess(77))
    (tmp_path / "var/lib/kubelet").mkdir(parents=True)
    (tmp_path / "var/lib/kubelet/config.yaml").write_text(FILE)
    settings = kubelet_process.read_settings(one, KubeletProcess(77))
    assert settings.config.topology_manager_policy == "restricted"
    assert settings.reason is not None
    assert "only /var/lib/kubelet/config.yaml was read" in settings.reason


def test_a_file_that_is_missing_or_no_configuration_is_named(tmp_path: Path) -> None:
    one = host(tmp_path, ["--config=/etc/k.yaml"])
    with pytest.raises(Unavailable, match=r"cannot read /etc/k\.yaml"):
        kubelet_process.read_settings(one, KubeletProcess(77))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/k.yaml").write_text("- list")
    with pytest.raises(Unavailable, match=r"/etc/k\.yaml: not a KubeletConfiguration"):
        kubelet_process.read_settings(one, KubeletProcess(77))
