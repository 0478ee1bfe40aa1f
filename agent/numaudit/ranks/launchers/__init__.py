"""The rows of the table of launchers, by kind of software."""
