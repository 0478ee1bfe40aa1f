"""Words that read translated, or are a second name for a thing, with what to write instead."""

from __future__ import annotations

import re

BANNED = {
    "anew": "again",
    "told as": "reported as",
    "is told": "is reported",
    "are told": "are reported",
    "tells of": "reports",
    "whom": "who",
    "held against": "compared with",
    "all the same": "nevertheless, or nothing",
    "so many bytes": "this many bytes",
    "what there is": "what exists",
    "what became of": "what happened to, or the result of",
    "what comes of": "the result of",
    "nobody knows": "it is unknown",
    "comes by": "gets",
    "lets go of": "releases",
    "to and fro": "back and forth",
    "from afar": "from another node",
    "to the byte": "exactly",
    "intended node": "promised node",
    "intended nodes": "promised nodes",
}
_BANNED = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)


def banned_words(text: str) -> list[str]:
    """Each banned word of a text on one line, with what to write."""
    return [f"{word!r}: write {BANNED[word]!r}" for word in sorted({one.lower() for one in _BANNED.findall(text)})]


def banned_words_of_code(text: str) -> list[str]:
    """The same of a program: its comments, docstrings and texts, over the ends of lines."""
    return banned_words(" ".join(re.sub(r"^\s*(?:#|//|\*)", "", text, flags=re.MULTILINE).split()))
