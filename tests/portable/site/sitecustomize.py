"""Read by a Python where no namespace could be made, through PYTHONPATH."""

import lacking_names  # noqa: F401
