"""The synthetic clinic: a small world whose exact posterior is known, and the models for it."""
