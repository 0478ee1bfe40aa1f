"""Workloads that numaudit starts itself."""
