"""The values of the report, built from a snapshot and its judgements."""
