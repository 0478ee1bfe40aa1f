"""`numaudit agent`: one look at the host after the other, for months."""
