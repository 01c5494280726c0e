"""The credits in trainers: one module for each, which imports its trainer."""
