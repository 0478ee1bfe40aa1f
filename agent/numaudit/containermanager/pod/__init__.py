"""Pods as the managers see them."""
