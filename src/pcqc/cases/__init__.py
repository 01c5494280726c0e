"""Cases, what of them the doctor may see, and the words and tokens of a consultation."""
