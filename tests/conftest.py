"""Hypothesis profiles: thirty examples each, or as HYPOTHESIS_PROFILE says.

``thorough`` is a thousand each; ``quick`` is for a second version of Python, once the first has run
them all.
"""

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("default", max_examples=30, deadline=None, suppress_health_check=SLOW)
settings.register_profile("quick", max_examples=10, deadline=None, suppress_health_check=SLOW)
settings.register_profile("thorough", max_examples=1_000, deadline=None, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
