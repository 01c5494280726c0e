"""What a study needs before it starts: memory, disk, measured hours. Imports no torch."""
