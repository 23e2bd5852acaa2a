"""Settings that hold for every test."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes says how busy the machine is, and nothing about the code.
settings.register_profile("wheel-assay", deadline=None)
settings.load_profile("wheel-assay")
