"""Outfitter runs commands for coding agents in an environment that is an explicit contract."""

VERSION = "0.1.0"
__version__ = VERSION
