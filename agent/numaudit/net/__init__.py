"""HTTP requests to servers that nobody trusts to behave: the kubelet, Prometheus, a receiver of OTLP."""
