"""Imitations of Go: its JSON, its number syntax, its printing and hashing."""
