"""Do the paper's own numbers agree with each other? Every relation between them, recomputed."""
