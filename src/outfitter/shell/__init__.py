"""What shells do to an environment: one file per family, their startup files, their reports."""
