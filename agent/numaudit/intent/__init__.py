"""Values of the kubelet's promises, pods, hints and settings.

None = not known, everywhere. An empty tuple or set = known to be none. The memory manager is imported for types only:
a node without a kubelet never needs it.
"""
