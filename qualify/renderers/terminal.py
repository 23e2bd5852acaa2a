"""What the renderers for people share: rich's console without its guesses, and text that no terminal acts on."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType

from qualify.lines import lines_of


def rendered(parts: Iterable[RenderableType], *, width: int, color: bool, wrap: bool = True) -> str:
    """The text of ``parts``, one below the other, without spaces at the ends of lines.

    :param width: columns.
    :param wrap: False leaves long lines as they are, for a person's terminal to fold.
    """
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        highlight=False,
        legacy_windows=False,
        emoji=False,
    )
    for part in parts:
        console.print(part, soft_wrap=not wrap)
    return "\n".join(line.rstrip() for line in lines_of(stream.getvalue())).rstrip() + "\n"


def plain(text: str) -> str:
    """Text from a wheel without what a terminal would act on: control characters become ``\\x1b``."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
