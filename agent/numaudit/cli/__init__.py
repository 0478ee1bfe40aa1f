"""The command line: verbs, and the exit codes of all of them."""

EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_CANNOT_ANSWER = 3
EXIT_INTERNAL = 4
EXIT_INCONCLUSIVE = 5
"""There is no sure answer: the machine was too busy, or it depends on chance or on the next boot."""
EXIT_NOT_BEGUN = 125
"""Of verbs whose exit status is that of a command: they failed themselves before it began."""
EXIT_INTERRUPTED = 130
