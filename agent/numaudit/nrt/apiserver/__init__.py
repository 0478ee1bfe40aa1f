"""The Kubernetes API server: one client, and what is published there. Its library is imported for that alone."""

from __future__ import annotations

from importlib.util import find_spec

from numaudit.errors import InputError


def check_installed(what: str) -> None:
    """Raises InputError, which says that `what` needs the library."""
    if find_spec("lightkube") is None:
        raise InputError(f"{what} needs the Python package lightkube: pip install 'numaudit[publish]'")
