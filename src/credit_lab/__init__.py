"""Experiments on credit for questions in worlds where the right credit can be computed exactly.

Three of them, independent of each other: `audit` (expected gradients in a clinic small enough to
enumerate), `map` (linear policies in twenty small clinics) and `quality` (credits of a trained
policy's questions beside their exact values). The package imports `pcqc` and the tables and figures
of `analysis`; nothing imports it.
"""
