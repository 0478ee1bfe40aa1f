"""A pod template as the OCI runtime configuration that containerd's CRI plugin makes of it. Pure.

Sources: containerd 2.1 internal/cri/server/container_create.go (buildLinuxSpec), internal/cri/opts/spec_linux_opts.go
(withMounts), pkg/oci/{spec,mounts}.go; Kubernetes pkg/securitycontext/util.go (masked and read-only paths) and
pkg/kubelet/qos.

It differs in this: one container and no pause container, so the container has namespaces of its own where the pod's
would be joined; no /etc/hosts, /etc/hostname, /etc/resolv.conf and termination log; no device nodes of the host in a
privileged container; no SELinux label and no AppArmor profile. Fields that it does not know are refused, for they might
matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from clusters.seccomp_profile import seccomp_for
from numaudit.topology.quantity import Quantity

Json = dict[str, Any]

_DEFAULT_MOUNTS: Sequence[Json] = (
    {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
    {
        "destination": "/dev",
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
    },
    {
        "destination": "/dev/pts",
        "type": "devpts",
        "source": "devpts",
        "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
    },
    {
        "destination": "/dev/shm",
        "type": "tmpfs",
        "source": "shm",
        "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"],
    },
    {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
    {
        "destination": "/sys/fs/cgroup",
        "type": "cgroup",
        "source": "cgroup",
        "options": ["nosuid", "noexec", "nodev", "relatime", "ro"],
    },
)
_MASKED = (
    *("/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list"),
    *("/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap"),
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_DEFAULT_CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP"),
    *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
)
_CRITICAL = ("system-node-critical", "system-cluster-critical")


class NotUnderstood(ValueError):
    """The template has something that would be left out of the configuration; says where."""


@dataclass(frozen=True, slots=True)
class Image:
    """What the image brings."""

    root: Path
    entrypoint: tuple[str, ...] = ("numaudit",)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """The machine that the pod comes to."""

    machine: str
    """As `uname -m` says it."""
    kernel: str
    """As `uname -r` says it."""
    is_cgroup_v2: bool
    capabilities: Sequence[str]
    """All that the runtime has to give, with CAP_ in front."""
    seccomp: Mapping[str, Any]
    """The runtime's default profile, in Moby's format."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """What fieldRef asks for: `spec.nodeName` -> value."""


def volumes_of(template: Mapping[str, Any]) -> dict[str, Json]:
    """Name of each volume -> its source: one of hostPath, configMap, emptyDir, secret, projected."""
    known = {"hostPath", "configMap", "emptyDir", "secret", "projected"}
    found: dict[str, Json] = {}
    for volume in template["spec"].get("volumes", ()):
        _only(volume, {"name", *known}, f"volume {volume['name']}")
        found[volume["name"]] = {kind: volume[kind] for kind in known & volume.keys()}
        if len(found[volume["name"]]) != 1:
            raise NotUnderstood(f"volume {volume['name']}: it has no source, or several")
    return found


def oci_config(template: Mapping[str, Any], image: Image, node: Node, volumes: Mapping[str, Path], cgroup: str) -> Json:
    """config.json of the template's only container.

    `volumes` has the folder on this machine for each volume, `cgroup` is the container's path in the hierarchies.
    Raises NotUnderstood.
    """
    spec = template["spec"]
    _check_pod(spec)
    container = spec["containers"][0]
    _check_container(container)
    security = {**_of_pod(spec), **container.get("securityContext", {})}
    privileged = bool(security.get("privileged"))
    capabilities = _capabilities(security, node)
    linux: Json = {
        "cgroupsPath": cgroup,
        "namespaces": [{"type": one} for one in _namespaces(spec, node, privileged)],
        "resources": _resources(container.get("resources", {}), privileged),
        "maskedPaths": [] if privileged else list(_MASKED),
        "readonlyPaths": [] if privileged else list(_READ_ONLY),
    }
    if not privileged and _wants_seccomp(security):
        linux["seccomp"] = seccomp_for(node.seccomp, capabilities, node.machine, node.kernel)
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(image.root), "readonly": bool(security.get("readOnlyRootFilesystem"))},
        "hostname": node.fields.get("metadata.name", "numaudit"),
        "process": {
            "terminal": False,
            "cwd": container.get("workingDir", "/"),
            "user": {"uid": security.get("runAsUser", 0), "gid": security.get("runAsGroup", 0)},
            "args": [*container.get("command", image.entrypoint), *container.get("args", ())],
            "env": _environment(container, image, node),
            "noNewPrivileges": not privileged and security.get("allowPrivilegeEscalation") is False,
            "oomScoreAdj": _oom_score(spec, node),
            # Neither inheritable nor ambient ones: containerd gives none
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
        },
        "mounts": _mounts(container, volumes, privileged),
        "linux": linux,
    }


def _check_pod(spec: Mapping[str, Any]) -> None:
    _only(
        spec,
        {
            *("containers", "volumes", "hostPID", "hostNetwork", "securityContext", "priorityClassName"),
            *("serviceAccountName", "automountServiceAccountToken", "terminationGracePeriodSeconds"),
            *("tolerations", "nodeSelector", "affinity", "dnsPolicy", "enableServiceLinks", "hostUsers"),
        },
        "spec",
    )
    if len(spec["containers"]) != 1:
        raise NotUnderstood(f"spec.containers: {len(spec['containers'])} containers, where one can run")
    if spec.get("automountServiceAccountToken") is not False:
        raise NotUnderstood("spec.automountServiceAccountToken: only false, for there is no token to mount")
    if spec.get("hostUsers") is False:
        raise NotUnderstood("spec.hostUsers: user namespaces are not made here")
    _only(spec.get("securityContext", {}), _OF_BOTH, "spec.securityContext")


_OF_BOTH = {"runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "seLinuxOptions", "appArmorProfile"}


def _check_container(container: Mapping[str, Any]) -> None:
    name = container["name"]
    _only(
        container,
        {
            *("name", "image", "imagePullPolicy", "command", "args", "workingDir", "env", "ports", "resources"),
            *("securityContext", "volumeMounts", "startupProbe", "livenessProbe", "readinessProbe"),
            *("terminationMessagePolicy", "terminationMessagePath"),
        },
        f"container {name}",
    )
    _only(
        container.get("securityContext", {}),
        {*_OF_BOTH, "privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"},
        f"container {name}: securityContext",
    )


def _of_pod(spec: Mapping[str, Any]) -> Json:
    return dict(spec.get("securityContext", {}))


def _only(found: Mapping[str, Any], known: Collection[str], where: str) -> None:
    if unknown := sorted(found.keys() - known):
        raise NotUnderstood(f"{where}: {', '.join(unknown)}: not known here, so it would be left out silently")


def _capabilities(security: Mapping[str, Any], node: Node) -> list[str]:
    """Source: WithCapabilities: ALL first, then each one added, then each one dropped."""
    if security.get("privileged"):
        return list(node.capabilities)
    asked = security.get("capabilities", {})
    _only(asked, {"add", "drop"}, "capabilities")
    add, drop = ([f"CAP_{name}" for name in asked.get(what, ())] for what in ("add", "drop"))
    found = [f"CAP_{name}" for name in _DEFAULT_CAPABILITIES]
    if "CAP_ALL" in add or "CAP_ALL" in drop:
        found = list(node.capabilities) if "CAP_ALL" in add and "CAP_ALL" not in drop else []
    found += [name for name in add if name != "CAP_ALL" and name not in found]
    if unknown := set(found) - set(node.capabilities):
        raise NotUnderstood(f"capabilities: {', '.join(sorted(unknown))}: the runtime has none such to give")
    return [name for name in found if name not in drop]


def _oom_score(spec: Mapping[str, Any], node: Node) -> int:
    """Source: pkg/kubelet/qos/policy.go; a runtime without the right to lower it leaves it (restrict_oom_score_adj)."""
    critical = spec.get("priorityClassName") in _CRITICAL and "CAP_SYS_RESOURCE" in node.capabilities
    return -997 if critical else 0


def _wants_seccomp(security: Mapping[str, Any]) -> bool:
    kind = security.get("seccompProfile", {}).get("type", "Unconfined")
    if kind not in ("RuntimeDefault", "Unconfined"):
        raise NotUnderstood(f"seccompProfile: {kind}: only RuntimeDefault and Unconfined")
    return bool(kind == "RuntimeDefault")


def _namespaces(spec: Mapping[str, Any], node: Node, privileged: bool) -> list[str]:
    """Source: buildLinuxSpec: a cgroup namespace on cgroup v2 only, and never for a privileged container."""
    found = ["ipc", "uts", "mount"]
    found += [] if spec.get("hostPID") else ["pid"]
    found += [] if spec.get("hostNetwork") else ["network"]
    return [*found, "cgroup"] if node.is_cgroup_v2 and not privileged else found


def _resources(resources: Mapping[str, Any], privileged: bool) -> Json:
    _only(resources, {"requests", "limits"}, "resources")
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    _only(requests, {"cpu", "memory"}, "resources.requests")
    _only(limits, {"memory"}, "resources.limits")
    found: Json = {"devices": [{"allow": privileged, "access": "rwm"}]}
    if "memory" in limits:
        found["memory"] = {"limit": Quantity.parse(str(limits["memory"])).value}
    if "cpu" in requests:
        found["cpu"] = {"shares": max(2, Quantity.parse(str(requests["cpu"])).milli_value * 1024 // 1000)}
    return found


def _environment(container: Mapping[str, Any], image: Image, node: Node) -> list[str]:
    """The image's, then the container's, as containerd adds them."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    found = {"PATH": path, "HOSTNAME": node.fields.get("metadata.name", "numaudit"), **image.environment}
    for one in container.get("env", ()):
        _only(one, {"name", "value", "valueFrom"}, f"env {one['name']}")
        if "valueFrom" not in one:
            found[one["name"]] = one.get("value", "")
            continue
        _only(one["valueFrom"], {"fieldRef"}, f"env {one['name']}: valueFrom")
        asked = one["valueFrom"]["fieldRef"]["fieldPath"]
        if asked not in node.fields:
            raise NotUnderstood(f"env {one['name']}: fieldRef {asked}: no value is known for it")
        found[one["name"]] = node.fields[asked]
    return [f"{name}={value}" for name, value in found.items()]


def _mounts(container: Mapping[str, Any], volumes: Mapping[str, Path], privileged: bool) -> list[Json]:
    """The runtime's own unless a volume is mounted there, then the volumes, outer places first."""
    asked = sorted(container.get("volumeMounts", ()), key=lambda one: len(PurePosixPath(one["mountPath"]).parts))
    taken = {str(PurePosixPath(one["mountPath"])) for one in asked}
    own = [mount for mount in _DEFAULT_MOUNTS if mount["destination"] not in taken]
    if privileged:
        own = [{**mount, "options": _writable(mount)} for mount in own]
    return [*own, *(_bind(one, volumes) for one in asked)]


def _writable(mount: Mapping[str, Any]) -> list[str]:
    """Source: WithWriteableSysfs, WithWriteableCgroupfs."""
    return ["rw" if option == "ro" else option for option in mount["options"]]


def _bind(asked: Mapping[str, Any], volumes: Mapping[str, Path]) -> Json:
    """Source: withMounts. `ro` leaves mounts below writable; `rro` does not."""
    where = f"volumeMount {asked['mountPath']}"
    _only(asked, {"name", "mountPath", "readOnly", "recursiveReadOnly", "mountPropagation"}, where)
    if asked.get("mountPropagation", "None") != "None":
        raise NotUnderstood(f"{where}: mountPropagation: only None")
    if asked["name"] not in volumes:
        raise NotUnderstood(f"{where}: no folder is given for the volume {asked['name']}")
    recursive = asked.get("recursiveReadOnly", "Disabled") != "Disabled"
    if recursive and not asked.get("readOnly"):
        raise NotUnderstood(f"{where}: recursiveReadOnly needs readOnly")
    access = "rro" if recursive else "ro" if asked.get("readOnly") else "rw"
    source = str(volumes[asked["name"]])
    return {
        "destination": asked["mountPath"],
        "type": "bind",
        "source": source,
        "options": ["rbind", "rprivate", access],
    }
