"""A map of a small clinic: where credit for questions pays, by what is known before training."""
