"""The kubelet's client side: its process, settings, log, pods, PodResources and checkpoints."""
