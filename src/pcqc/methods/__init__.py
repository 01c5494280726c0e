"""Methods: what to draw, and which credit it gets; consultations in, weighted tokens out."""
