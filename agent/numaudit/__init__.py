"""numaudit proves NUMA memory alignment on Kubernetes nodes and plain Linux hosts."""

__version__ = "0.1.0"
