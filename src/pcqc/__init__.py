"""PCQC: privileged counterfactual question credit for multi-turn medical dialogue."""
