from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from interlock.models import allow_model_requests

# The same examples every time, however slow the machine is; `--hypothesis-profile=default` looks for others.
settings.register_profile(
    "interlock", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("interlock")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_model_requests(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test reaches a real model by accident."""
    if request.node.get_closest_marker("local_model") is not None:
        yield
        return
    with allow_model_requests(False):
        yield
