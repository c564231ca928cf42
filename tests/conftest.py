"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# On a busy machine an example may take any time to be made up or tried: that says nothing about what is
# tested, and each test has a time limit of its own.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

pytest_plugins = ["tests.support.confining"]
