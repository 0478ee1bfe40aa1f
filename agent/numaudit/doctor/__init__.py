"""Checks of what this host can measure, source by source, and why not."""
