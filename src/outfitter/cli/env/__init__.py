"""outfitter env: what a command would get as environment, why, and how two of them differ."""
