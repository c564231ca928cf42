"""A project's setup: where it is, what it would run, and what is kept of it."""
