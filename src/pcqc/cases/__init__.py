"""Cases, the part of them that the doctor may see, and a consultation as text and as tokens."""
