"""Who owns a cgroup."""
