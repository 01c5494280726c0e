"""Engines for large models."""
