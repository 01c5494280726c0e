"""Evaluation: benchmarks, and the choice of checkpoints."""
