"""Hints, their merge and the policies."""
