"""The workflow's jobs, about one module a kind, and the commands that look at a study's results."""
