"""The OCI configuration that the tests run is what containerd makes of the pod template, and leaves nothing out."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.pod_bundle import Image, Node, NotUnderstood, oci_config, volumes_of
from clusters.seccomp_profile import seccomp_for
from confinement.agent import CAPABILITIES, SECCOMP, SECCOMP_BEFORE_CAP_BPF, SECCOMP_NOW

Json = dict[str, Any]
TEMPLATE: Json = {
    "metadata": {},
    "spec": {
        "automountServiceAccountToken": False,
        "hostPID": True,
        "priorityClassName": "system-node-critical",
        "containers": [
            {
                "name": "agent",
                "image": "numaudit",
                "args": ["agent"],
                "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "256Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "runAsUser": 0,
                    "capabilities": {"drop": ["ALL"], "add": ["BPF", "PERFMON"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "volumeMounts": [
                    {"name": "tracing", "mountPath": "/sys/kernel/tracing", "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "cgroup", "mountPath": "/sys/fs/cgroup", "readOnly": True},
                ],
            }
        ],
        "volumes": [
            {"name": "tracing", "hostPath": {"path": "/sys/kernel/tracing"}},
            {"name": "cgroup", "hostPath": {"path": "/sys/fs/cgroup"}},
            {"name": "tmp", "emptyDir": {"medium": "Memory"}},
        ],
    },
}
VOLUMES = {name: Path("/volumes") / name for name in ("tracing", "cgroup", "tmp")}


def profile(name: str) -> Json:
    return dict(json.loads((SECCOMP / f"{name}.json").read_text()))


NODE = Node("x86_64", "6.12.1", True, CAPABILITIES, profile(SECCOMP_NOW), {"spec.nodeName": "node-7"})
IMAGE = Image(Path("/image"), ("numaudit",), {"LANG": "C.UTF-8"})


def made(change: Callable[[Json, Json], object] = lambda pod, container: None, node: Node = NODE) -> Json:
    """The configuration of the template after a change of its spec and its container."""
    template = copy.deepcopy(TEMPLATE)
    change(template["spec"], template["spec"]["containers"][0])
    return oci_config(template, IMAGE, node, VOLUMES, "/kubepods/x")


def security(**settings: object) -> Callable[[Json, Json], object]:
    return lambda pod, container: container["securityContext"].update(settings)


def allowed(config: Json) -> set[str]:
    """Calls that its seccomp filter lets through whatever their arguments."""
    rules = config["linux"]["seccomp"]["syscalls"]
    return {name for one in rules if one["action"] == "SCMP_ACT_ALLOW" and "args" not in one for name in one["names"]}


def test_the_process_is_the_images_with_the_containers_arguments_and_environment() -> None:
    process = made()["process"]
    assert process["args"] == ["numaudit", "agent"]
    assert {"LANG=C.UTF-8", "NODE=node-7"} <= set(process["env"])
    assert process["user"] == {"uid": 0, "gid": 0}
    assert process["oomScoreAdj"] == -997


def test_only_the_added_capabilities_are_there_and_none_is_inherited() -> None:
    exactly = ["CAP_BPF", "CAP_PERFMON"]
    assert made()["process"]["capabilities"] == {"bounding": exactly, "effective": exactly, "permitted": exactly}


def test_without_drop_a_container_has_the_runtimes_default_capabilities_too() -> None:
    found = made(security(capabilities={"add": ["BPF"], "drop": ["CHOWN"]}))["process"]["capabilities"]["effective"]
    assert {"CAP_NET_RAW", "CAP_KILL", "CAP_BPF"} <= set(found)
    assert "CAP_CHOWN" not in found


def test_no_new_privileges_follows_allow_privilege_escalation() -> None:
    assert made()["process"]["noNewPrivileges"] is True
    assert made(security(allowPrivilegeEscalation=True))["process"]["noNewPrivileges"] is False


def test_the_root_is_read_only_where_the_manifest_says_so() -> None:
    assert made()["root"] == {"path": "/image", "readonly": True}
    assert made(security(readOnlyRootFilesystem=False))["root"]["readonly"] is False


def test_kernel_settings_are_read_only_and_what_tells_too_much_is_masked() -> None:
    linux = made()["linux"]
    assert {"/proc/sys", "/proc/sysrq-trigger"} <= set(linux["readonlyPaths"])
    assert {"/proc/kcore", "/proc/keys", "/sys/firmware"} <= set(linux["maskedPaths"])


def test_a_privileged_container_has_every_capability_no_filter_and_a_writable_sysfs() -> None:
    config = made(security(privileged=True, allowPrivilegeEscalation=True, capabilities={}))
    assert config["process"]["capabilities"]["effective"] == list(CAPABILITIES)
    assert config["process"]["noNewPrivileges"] is False
    linux = config["linux"]
    assert (linux.get("seccomp"), linux["maskedPaths"], linux["readonlyPaths"]) == (None, [], [])
    assert linux["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert "rw" in next(one for one in config["mounts"] if one["destination"] == "/sys")["options"]
    assert {"type": "cgroup"} not in linux["namespaces"]


def test_a_runtime_gives_no_capability_that_it_does_not_have_itself() -> None:
    few = replace(NODE, capabilities=["CAP_BPF", "CAP_PERFMON"])
    privileged = security(privileged=True)
    assert made(privileged, few)["process"]["capabilities"]["effective"] == ["CAP_BPF", "CAP_PERFMON"]
    with pytest.raises(NotUnderstood, match="SYS_PTRACE: the runtime has none such"):
        made(security(capabilities={"drop": ["ALL"], "add": ["SYS_PTRACE"]}), few)


def test_a_capability_that_does_not_exist_is_refused() -> None:
    with pytest.raises(NotUnderstood, match="CAP_BPFF"):
        made(security(capabilities={"drop": ["ALL"], "add": ["BPFF"]}))


def test_the_hosts_processes_are_seen_with_host_pid_only() -> None:
    assert {"type": "pid"} not in made()["linux"]["namespaces"]
    assert {"type": "pid"} in made(lambda pod, container: pod.pop("hostPID"))["linux"]["namespaces"]


def test_the_network_is_its_own_unless_the_hosts_is_asked_for() -> None:
    assert {"type": "network"} in made()["linux"]["namespaces"]
    assert {"type": "network"} not in made(lambda pod, _: pod.update(hostNetwork=True))["linux"]["namespaces"]


def test_a_cgroup_namespace_comes_with_cgroup_v2_only() -> None:
    assert {"type": "cgroup"} in made()["linux"]["namespaces"]
    assert {"type": "cgroup"} not in made(node=replace(NODE, is_cgroup_v2=False))["linux"]["namespaces"]


def test_volumes_come_after_the_runtimes_mounts_outer_places_first() -> None:
    places = [one["destination"] for one in made()["mounts"]]
    assert places[:2] == ["/proc", "/dev"]
    assert places[-4:] == ["/sys", "/tmp", "/sys/kernel/tracing", "/sys/fs/cgroup"]


def test_a_volume_takes_the_place_of_the_runtimes_own_mount() -> None:
    (cgroups,) = (one for one in made()["mounts"] if one["destination"] == "/sys/fs/cgroup")
    assert (cgroups["type"], cgroups["source"]) == ("bind", "/volumes/cgroup")


def test_a_read_only_volume_is_so_with_what_is_mounted_below_only_when_asked() -> None:
    def options(**settings: str) -> list[str]:
        config = made(lambda pod, container: container["volumeMounts"][0].update(settings))
        return list(next(one["options"] for one in config["mounts"] if one["destination"] == "/sys/kernel/tracing"))

    assert options() == ["rbind", "rprivate", "ro"]
    assert options(recursiveReadOnly="IfPossible") == ["rbind", "rprivate", "rro"]


def test_the_memory_limit_is_in_bytes_and_the_cpu_request_a_share() -> None:
    resources = made()["linux"]["resources"]
    assert (resources["memory"], resources["cpu"]) == ({"limit": 256 << 20}, {"shares": 51})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda pod, container: pod.update(shareProcessNamespace=True), "spec: shareProcessNamespace"),
        (lambda pod, container: pod.update(initContainers=[]), "spec: initContainers"),
        (lambda pod, container: pod["containers"].append({}), "2 containers"),
        (lambda pod, container: pod.pop("automountServiceAccountToken"), "automountServiceAccountToken"),
        (lambda pod, container: container.update(lifecycle={}), "container agent: lifecycle"),
        (lambda pod, container: container.update(envFrom=[]), "container agent: envFrom"),
        (security(procMount="Unmasked"), "procMount"),
        (security(seccompProfile={"type": "Localhost"}), "Localhost"),
        (lambda pod, container: container["resources"]["limits"].update(cpu=1), "resources.limits: cpu"),
        (lambda pod, container: container["volumeMounts"][0].update(subPath="x"), "/sys/kernel/tracing: subPath"),
        (lambda pod, container: container["volumeMounts"][0].update(mountPropagation="Bidirectional"), "Propagation"),
        (lambda pod, container: container["volumeMounts"][0].update(name="nowhere"), "the volume nowhere"),
        (lambda pod, container: container["volumeMounts"][1].update(recursiveReadOnly="Enabled"), "needs readOnly"),
        (lambda pod, container: container["env"][0]["valueFrom"].update(secretKeyRef={}), "valueFrom: secretKeyRef"),
        (
            lambda pod, container: container["env"][0]["valueFrom"]["fieldRef"].update(fieldPath="status.podIP"),
            "status.podIP: no value",
        ),
    ],
)
def test_what_it_does_not_know_is_refused_by_its_name(change: Callable[[Json, Json], object], named: str) -> None:
    with pytest.raises(NotUnderstood, match=named):
        made(change)


def test_a_volume_of_an_unknown_kind_is_refused() -> None:
    template = {"spec": {"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "x"}}]}}
    with pytest.raises(NotUnderstood, match="volume disk: persistentVolumeClaim"):
        volumes_of(template)


def test_the_filter_lets_bpf_and_perf_events_through_with_their_own_capability_each() -> None:
    assert {"bpf", "perf_event_open"} <= allowed(made())
    assert {"bpf", "perf_event_open"} & allowed(made(security(capabilities={"drop": ["ALL"], "add": ["BPF"]}))) == {
        "bpf"
    }
    assert not {"mount", "setns", "init_module", "syslog"} & allowed(made())


def test_an_older_filter_lets_them_through_with_sys_admin_only() -> None:
    old = replace(NODE, seccomp=profile(SECCOMP_BEFORE_CAP_BPF))
    assert not {"bpf", "perf_event_open"} & allowed(made(node=old))
    admin = security(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]})
    assert {"bpf", "perf_event_open"} <= allowed(made(admin, old))


def test_a_filter_heeds_the_machine_and_the_kernel() -> None:
    def calls(machine: str, kernel: str) -> set[str]:
        return allowed({"linux": {"seccomp": seccomp_for(profile(SECCOMP_NOW), [], machine, kernel)}})

    assert "arch_prctl" in calls("x86_64", "6.12.0-cloud")
    assert "arch_prctl" not in calls("aarch64", "6.12.0-cloud")
    assert "ptrace" in calls("x86_64", "4.8.0")
    assert "ptrace" not in calls("x86_64", "4.7.9")
    archs = seccomp_for(profile(SECCOMP_NOW), [], "x86_64", "6.1")["architectures"]
    assert archs == ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
