"""Read by a Python that is not of `.venv`, or outside of a namespace, through PYTHONPATH."""

import lacking_names  # noqa: F401
