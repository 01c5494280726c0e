"""Other credit rules as methods of PCQC, found by their entry points."""
