"""The workload that a pod belongs to, by the pod's name alone: where the kubelet's list of pods is not to be had.

Source: k8s.io/apimachinery/pkg/util/rand (the letters of generated names, and of hashes of pod templates);
pkg/controller/controller_utils.go (names are the owner's with five letters), statefulset (the owner's with a number).
"""

from __future__ import annotations

import re

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
_GENERATED = (
    re.compile(rf"(.+)-{_RANDOM}{{6,10}}-{_RANDOM}{{5}}", re.ASCII),  # Deployment
    re.compile(rf"(.+)-{_RANDOM}{{5}}", re.ASCII),  # ReplicaSet, DaemonSet, Job
    re.compile(r"(.+)-\d{1,5}", re.ASCII),  # StatefulSet
)


def workload_of(pod: str) -> str:
    """The pod's name without what a controller adds to its own; a name of another form stays whole."""
    matches = (form.fullmatch(pod) for form in _GENERATED)
    return next((match[1] for match in matches if match is not None), pod)
