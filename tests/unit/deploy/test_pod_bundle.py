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
from documentation import json_lines

Json = dict[str, Any]
MatchesGolden = Callable[[str, str], None]
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


VARIANTS: dict[str, Json] = {
    "as the template says": made(),
    "privileged": made(security(privileged=True, allowPrivilegeEscalation=True, capabilities={})),
    "a writable root": made(security(readOnlyRootFilesystem=False)),
    "without hostPID": made(lambda pod, container: pod.pop("hostPID")),
    "with hostNetwork": made(lambda pod, container: pod.update(hostNetwork=True)),
    "on cgroup v1": made(node=replace(NODE, is_cgroup_v2=False)),
    "read-only below, too": made(
        lambda pod, container: container["volumeMounts"][0].update(recursiveReadOnly="IfPossible")
    ),
}


def _flat(config: Json) -> Json:
    """Its parts but the seccomp filter, mounts by their places."""
    mounts, process, linux = (config.pop(name) for name in ("mounts", "process", "linux"))
    linux.pop("seccomp", None)
    places = {one.pop("destination"): one for one in mounts}
    return {**config, **process, **linux, "mounts": [*places]} | {
        f"mount {place}": one for place, one in places.items()
    }


def test_the_configuration_of_a_pod_is_known(matches_golden: MatchesGolden) -> None:
    """Of a variant, what differs from the template's."""
    plain, *others = ((name, _flat(copy.deepcopy(config))) for name, config in VARIANTS.items())
    known = dict([plain])
    for name, config in others:
        known[name] = {key: value for key, value in config.items() if value != plain[1].get(key)}
    matches_golden("tests/golden/pod-bundle.json", json_lines.written(known))


def test_without_drop_a_container_has_the_runtimes_default_capabilities_too() -> None:
    found = made(security(capabilities={"add": ["BPF"], "drop": ["CHOWN"]}))["process"]["capabilities"]["effective"]
    assert {"CAP_NET_RAW", "CAP_KILL", "CAP_BPF"} <= set(found)
    assert "CAP_CHOWN" not in found


def test_a_runtime_gives_no_capability_that_it_does_not_have_itself() -> None:
    few = replace(NODE, capabilities=["CAP_BPF", "CAP_PERFMON"])
    privileged = security(privileged=True)
    assert made(privileged, few)["process"]["capabilities"]["effective"] == ["CAP_BPF", "CAP_PERFMON"]
    with pytest.raises(NotUnderstood, match="SYS_PTRACE: the runtime has none such"):
        made(security(capabilities={"drop": ["ALL"], "add": ["SYS_PTRACE"]}), few)


def test_a_capability_that_does_not_exist_is_refused() -> None:
    with pytest.raises(NotUnderstood, match="CAP_BPFF"):
        made(security(capabilities={"drop": ["ALL"], "add": ["BPFF"]}))


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
