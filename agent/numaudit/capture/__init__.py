"""What the readers read, copied into a tree or an archive for --root."""
