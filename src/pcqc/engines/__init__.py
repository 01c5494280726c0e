"""Engines: token ids in, token ids and log-probabilities out; they know nothing of medicine."""
