"""Ticks: when they are due, what each publishes, whether they succeed."""
