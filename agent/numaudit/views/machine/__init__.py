"""`numaudit topology -o svg`: the machine as one drawing."""
