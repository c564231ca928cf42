"""What agents and Outfitter say to each other."""
