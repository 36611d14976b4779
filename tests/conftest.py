"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# examples may compile kernels or start workers the first time: time says nothing about right or wrong
ALWAYS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}

# `make test` says the same of the same commit, whenever it runs; `make fuzz` looks where nobody has looked
settings.register_profile("check", derandomize=True, **ALWAYS)
settings.register_profile("fuzz", **ALWAYS)
settings.load_profile("check")
