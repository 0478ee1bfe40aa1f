"""`numaudit agent`: one tick after the other, for months."""
