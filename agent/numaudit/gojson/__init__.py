"""What imitates Go: its JSON, its number syntax, its printing and hashing."""
