"""The fields of a v1 Pod, to find the misspelt ones: a kubelet never sees them, so a request would be lost silently.

Source: k8s.io/api/core/v1/types.go, k8s.io/apimachinery/pkg/apis/meta/v1/types.go of Kubernetes 1.36.
"""

from __future__ import annotations

from numaudit.scenario.document import Document


def _names(*lines: str) -> tuple[str, ...]:
    return tuple(name for line in lines for name in line.split())


_POD = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA = _names(
    "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp",
    "deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields",
)
_SPEC = _names(
    "volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds",
    "activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken",
    "nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets hostname subdomain",
    "affinity schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates",
    "runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os",
    "hostUsers schedulingGates resourceClaims resources hostnameOverride workloadRef schedulingGroup",
)
_CONTAINER = _names(
    "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy restartPolicyRules",
    "volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath",
    "terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty",
)


def check_pod_fields(manifest: Document) -> None:
    """Raise InputError for a field that a Pod does not have, with the names that are near."""
    manifest.fields(_POD)
    for name, known in (("metadata", _METADATA), ("spec", _SPEC)):
        if manifest.part(name).value is not None:
            manifest.part(name).fields(known)
    spec = manifest.part("spec")
    for name in ("initContainers", "containers"):
        for container in spec.part(name).elements():
            container.fields(_CONTAINER)
