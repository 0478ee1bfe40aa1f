"""Readers of the PCI devices of this host, and of what leads from a process or cgroup to them."""
