"""`numaudit top`: the report on a live screen."""
