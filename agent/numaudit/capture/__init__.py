"""Captures: /proc, /sys, cgroup and kubelet state, saved as a tree or an archive for --root."""
