"""Evaluation: benchmarks, the choice of checkpoints, continuations, and answer grounding."""
