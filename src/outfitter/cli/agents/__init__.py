"""outfitter agent and outfitter contract: launches of agents, and what they must keep."""
