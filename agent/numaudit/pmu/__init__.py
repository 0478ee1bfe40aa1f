"""Hardware counters of local and remote memory accesses: CPU families, choice of events, arithmetic. Pure."""
