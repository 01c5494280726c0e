"""Audit of credits: each method's expected gradient beside the exact one, in a tiny clinic."""
