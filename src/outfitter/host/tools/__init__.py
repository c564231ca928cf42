"""Programs that make environments: how they are run, and what they see."""
