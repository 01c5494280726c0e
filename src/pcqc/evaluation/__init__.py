"""Evaluation: benchmarks, choice of checkpoints, continuations and whether answers are grounded."""
