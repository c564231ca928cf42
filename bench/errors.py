"""BenchError: a measurement that could not be made. It is reported beside the numbers and ends nothing."""

from __future__ import annotations

__all__ = ["BenchError"]


class BenchError(Exception):
    pass
