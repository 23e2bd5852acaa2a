"""What the integration tests need of the machine, said once."""

from __future__ import annotations

import functools
import os

import pytest

from builders.engines import engine_named
from qualify.errors import AssayError


@functools.cache
def _no_engine() -> str:
    """Why no Docker engine can be used; "" where one answers."""
    try:
        engine_named("docker").info()
    except AssayError as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs Docker on a machine without it, and fail there where a run without it proves nothing (CI)."""
    if item.get_closest_marker("docker") is None or not (reason := _no_engine()):
        return
    if os.environ.get("WHEEL_ASSAY_REQUIRE_DOCKER"):
        pytest.fail(f"WHEEL_ASSAY_REQUIRE_DOCKER is set, and {reason}", pytrace=False)
    pytest.skip(reason)
