"""The static Memory Manager."""
