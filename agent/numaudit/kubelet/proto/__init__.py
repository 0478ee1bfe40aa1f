"""Generated stubs of the kubelet's gRPC interfaces."""
