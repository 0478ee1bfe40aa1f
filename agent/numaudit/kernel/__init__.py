"""Readers and writers of the kernel's interfaces: one interface per module."""
