"""Files as people and tools write them, read with their line numbers."""
