"""Exit codes of every verb."""

EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_CANNOT_ANSWER = 3
EXIT_INTERNAL = 4
EXIT_INCONCLUSIVE = 5
"""The machine was too busy for an answer; the same command may give one later."""
EXIT_NOT_BEGUN = 125
"""Of verbs whose exit status is that of a command: they failed themselves before it began."""
EXIT_INTERRUPTED = 130
