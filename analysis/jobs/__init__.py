"""The analysis as jobs of the workflow."""
