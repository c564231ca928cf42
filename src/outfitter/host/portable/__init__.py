"""What every Unix has, in place of what only Linux has: a module for each of those. `host.unix` chooses."""
