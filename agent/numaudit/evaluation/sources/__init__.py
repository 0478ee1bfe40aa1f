"""Sources of memory accesses: one module each, and one list that says which comes first (`table.SOURCES`)."""
