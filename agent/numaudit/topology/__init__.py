"""The machine as values: node sets, CPUs, memory, distances. No I/O."""
