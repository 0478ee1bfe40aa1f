"""The console script. Ctrl-C while modules are still being imported is as quiet as it is later on."""

from __future__ import annotations

import os
import signal

from numaudit.cli.exits import EXIT_INTERRUPTED


def run() -> None:
    """Import the command and run it; a SIGINT that the caller had ignored stays ignored."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    from numaudit.cli import main  # noqa: PLC0415 (takes long, so it comes after the handler)

    signal.signal(signal.SIGINT, handler)
    main.run()
