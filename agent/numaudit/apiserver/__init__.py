"""The Kubernetes API server: one client, and what the agent publishes there. Imported only where that is asked for."""
