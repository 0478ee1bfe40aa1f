"""Files of processes that say what they were started with, and what they have open."""
