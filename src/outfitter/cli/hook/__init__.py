"""outfitter hook: the project's environment for agents that run commands themselves."""
