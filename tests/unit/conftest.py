"""How hard the property tests try. (Kept out of the conftest above: the guest's tests need no hypothesis.)"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Several suites may share a slow machine, so time judges no example.
settings.register_profile(
    "default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
