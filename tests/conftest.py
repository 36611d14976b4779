"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# examples may compile kernels or start workers the first time: time says nothing about right or wrong
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("default")
