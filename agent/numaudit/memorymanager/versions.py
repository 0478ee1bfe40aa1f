"""The Kubernetes versions whose kubelets differ in what is told here."""

KubernetesVersion = tuple[int, int]
"""Major and minor: (1, 36)."""

LATEST: KubernetesVersion = (1, 36)
"""The newest kubelet this project was checked against."""
