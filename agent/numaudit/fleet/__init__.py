"""The whole cluster, by what a Prometheus has scraped from the agents of its nodes."""

DEFAULT_NODE_LABEL = "nodename"
"""What deploy/components/monitoring/podmonitor.yaml sets."""
