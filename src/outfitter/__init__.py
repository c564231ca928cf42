"""Outfitter runs commands for coding agents in an environment that is an explicit contract."""
