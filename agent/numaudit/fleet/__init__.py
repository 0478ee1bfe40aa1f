"""The whole cluster, by what a Prometheus has scraped from the agents of its nodes."""

DEFAULT_NODE_LABEL = "nodename"
"""Label that deploy/components/monitoring/podmonitor.yaml sets."""
