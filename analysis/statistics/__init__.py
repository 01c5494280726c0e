"""The paper's statistics (app:setup, "Statistical analysis"); seeds are fixed."""
