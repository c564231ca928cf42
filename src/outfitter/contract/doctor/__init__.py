"""What is wrong with the environment of commands: one file per family of checks, listed in `registry`."""
