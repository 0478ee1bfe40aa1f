"""The static CPU Manager."""
