"""Experiments on credit for questions in worlds where the right credit can be computed exactly.

`bench` is CreditBench: how good is a credit? It stands on `audit`, a clinic small enough to
enumerate. The package imports `pcqc` and `analysis`; nothing imports it.
"""
