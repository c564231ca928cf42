"""What confines a command: one file per mechanism."""
