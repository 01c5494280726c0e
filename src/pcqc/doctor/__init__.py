"""`pcqc doctor`: this machine against a study, before anyone spends a night of GPUs on it."""
