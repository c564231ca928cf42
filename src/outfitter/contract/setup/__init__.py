"""A project's setup: what it would run, what it depends on, and what came of it."""
