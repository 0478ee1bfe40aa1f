"""Dead objects that only Python's garbage collector could free, which the agent lets run rarely."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_kept_errors() -> Iterator[None]:
    """Fail if the block leaves an error in a cycle: its traceback keeps the frames of a whole tick."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kept = [repr(one) for one in gc.garbage if isinstance(one, BaseException)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert kept == []
