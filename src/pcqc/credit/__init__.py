"""Credit: Section 3 of the paper as pure functions of numbers."""
