"""The console script. Signals while modules are still being imported end it as quietly as they do later on."""

from __future__ import annotations

import os
import signal
import sys

from numaudit.cli import EXIT_INTERRUPTED
from numaudit.daemon import signals


def run() -> None:
    """Import the command and run it; a SIGINT that the caller had ignored stays ignored."""
    if sys.argv[1:2] == ["agent"]:
        signals.while_the_agent_starts()
    elif os.getpid() == 1:
        signals.while_the_first_process()
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    from numaudit.cli import main  # (takes long, so it comes after the handlers)

    signal.signal(signal.SIGINT, handler)
    main.run()
