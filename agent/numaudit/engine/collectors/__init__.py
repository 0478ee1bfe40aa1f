"""One module per question, one field of the snapshot each."""
