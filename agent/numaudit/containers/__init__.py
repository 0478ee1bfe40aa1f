"""Owners of cgroups."""
