"""Evaluation: benchmarks, the choice of checkpoints, continuations, answer grounding, and what each
published credit would give the candidate questions of a state.
"""
