"""PCQC: privileged counterfactual question credit for multi-turn medical dialogue."""

__version__ = "0.1.0"
