"""Libraries from outside the wheel: what may be bundled, what must be known, where they are looked for."""
