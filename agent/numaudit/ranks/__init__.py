"""Placement that software was told to have: command lines and environments of launchers, as sets of nodes and CPUs."""
