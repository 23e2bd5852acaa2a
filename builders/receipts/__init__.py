"""The receipt of a build, beside the wheel: its shape, where it lies, and the facts that go into it."""

from __future__ import annotations

from builders.receipts.files import find_built, log_for, path_for, to_text
from builders.receipts.model import RECEIPT_VERSION

__all__ = ["RECEIPT_VERSION", "find_built", "log_for", "path_for", "to_text"]
