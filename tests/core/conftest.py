"""Hypothesis profiles: a hundred examples each by default, HYPOTHESIS_PROFILE=thorough for more."""

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("default", max_examples=100, deadline=None, suppress_health_check=SLOW)
settings.register_profile("thorough", max_examples=1_000, deadline=None, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
