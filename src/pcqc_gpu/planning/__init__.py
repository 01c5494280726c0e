"""What a study needs before it starts: memory, disk, consultations, GPU-hours. Imports no torch."""
