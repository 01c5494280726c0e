"""A synthetic clinic: a doctor asks questions, and the value of each is known exactly."""
