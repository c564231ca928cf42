"""Compares Outfitter with the reference exec-server, a peer and the bare limit, side by side.

    .venv/bin/python -m bench            the full run, some minutes
    .venv/bin/python -m bench --quick    a short one, for a first look
    .venv/bin/python -m bench --only P4,echo --arms ours,codex,bare --json

All arms are measured in turn inside every round, so a busy minute hits each of them; trust the ratios more
than the milliseconds. Nothing here passes or fails: goals are printed as met or missed.
"""
