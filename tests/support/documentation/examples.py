"""How many examples a property test tries, beside those that tests/conftest.py gives each."""

from __future__ import annotations

from hypothesis import settings


def times(factor: int) -> settings:
    """A decorator: so many times the examples of the profile in force."""
    return settings(max_examples=factor * settings().max_examples)
