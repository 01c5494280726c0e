"""What every room uses and no number depends on: settings, errors, files, processes."""
