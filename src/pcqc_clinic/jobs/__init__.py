"""Jobs that only a study of the clinic has."""
