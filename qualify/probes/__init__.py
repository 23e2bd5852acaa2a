"""Where a wheel is measured: one probe per module."""
