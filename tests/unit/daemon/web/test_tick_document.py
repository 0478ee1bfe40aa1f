"""A tick's document is made once."""

from __future__ import annotations

import gzip
import threading

from numaudit.daemon.web.tick_document import TickDocument


def test_many_readers_at_once_get_one_document_that_is_made_once() -> None:
    made: list[bytes] = []
    all_here = threading.Barrier(8)

    def make() -> bytes:
        made.append(b"made")
        return b"the document"

    document = TickDocument(make)
    found: list[bytes] = []

    def read(packed: bool) -> None:
        all_here.wait()
        body = document.get(packed)
        found.append(gzip.decompress(body) if packed else body)

    threads = [threading.Thread(target=read, args=(number % 2 == 0,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (made, found) == ([b"made"], [b"the document"] * 8)
    assert document.get(gzip=True) is document.get(gzip=True)
