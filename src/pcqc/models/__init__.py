"""Models on disk: read, written, checked."""
