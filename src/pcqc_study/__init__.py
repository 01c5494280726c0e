"""A study around the core: settings, jobs, results, MLflow, the command line."""
