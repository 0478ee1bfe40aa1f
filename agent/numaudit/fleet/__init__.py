"""The whole cluster, by what a Prometheus has scraped from the agents of its nodes."""
