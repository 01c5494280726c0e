"""How figures look, and the boxes and arrows of diagrams."""
