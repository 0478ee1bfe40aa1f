"""Texts and documents: JSON as Go has it, YAML, checksums, and the base of all values of documents."""
