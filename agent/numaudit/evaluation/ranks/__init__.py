"""Verdicts of processes: is each where its launcher was to bind it? Pure."""
