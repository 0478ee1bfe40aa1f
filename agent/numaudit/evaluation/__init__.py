"""Pure functions: snapshots in, judgements out."""
