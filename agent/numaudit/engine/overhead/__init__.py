"""Cost of the probes, and the budget that limits it."""
