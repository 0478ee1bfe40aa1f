"""Names that do harm where they are not escaped: markup, scripts, control characters, hidden and reversed text."""

from __future__ import annotations

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</title></style></script><b>",
    "&lt;b&gt; & &amp;",
    "a\x00b\x1b[31m\r\nc\x7f",
    "safe\u202egnp.exe\u2066\u200b",
    "bytes \udcff\udc80",
)
