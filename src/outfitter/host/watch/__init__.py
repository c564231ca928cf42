"""What tells of changes to files."""
