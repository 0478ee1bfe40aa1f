"""`numaudit run`: a command on nodes of its own, by the static managers."""
