"""The kubelet's state files."""
