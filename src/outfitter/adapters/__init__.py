"""Outfitter where people already work: one module for each package that it fits into, and that it needs."""
