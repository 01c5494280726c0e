"""Training: the algorithm-blind learner, checkpoints, and the loops around it."""
