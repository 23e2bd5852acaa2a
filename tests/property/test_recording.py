from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from qualify import measuredtext
from qualify.matrix.model import Measured

MEASURED = Measured(
    runtime_version="0.1.0",
    distribution_version="0.1.0+cu130",
    build_mode="unstated",
    commit="0123456",
    sha256="0" * 64,
    toolkit="13.0",
    torch="",
    flashinfer="",
    how='import "as is" # no comment, \\',
    when="2026-11-30T12:00:00+00:00",
)
ENTRY = {name: getattr(MEASURED, name) for name in Measured.model_fields if name not in ("companions", "verdict")}

# Whatever a person may write between the keys, line separators that only YAML 1.1 knows included.
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=12)
comments = st.lists(
    words.map(lambda text: "# " + text.replace("\u2028", " ").replace("\u2029", " ")) | st.just(""), max_size=3
)
others = st.sampled_from(
    [
        "version: 1",
        "pin: {commit: '0123456'}",
        'targets:\n  a-sm90:\n    x: "1"  # note',
        "list: [a, b]",
        "items:\n- a\n- b",
    ]
)
entry = '  aarch64-sm110:\n    sha256: "1"'
measured = st.sampled_from(
    ["measured: {}", "measured: {}  # by record", "measured:\n" + entry, "measured:   { }", "measured:"]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    blocks = draw(st.lists(others, max_size=3, unique=True))
    if draw(st.booleans()):
        blocks.insert(draw(st.integers(0, len(blocks))), draw(measured))
    if not blocks:
        blocks = ["version: 1"]
    lines: list[str] = []
    for block in blocks:
        lines += [*draw(comments), block]
    lines += draw(comments)
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@settings(deadline=None, max_examples=300)
@given(texts())
def test_one_entry_goes_in_and_nothing_else_changes(before: str) -> None:
    after = measuredtext.insert(before, "x86_64-sm90", MEASURED)
    old, new = (YAML(typ="safe", pure=True).load(text) for text in (before, after))
    assert new.pop("measured") == {**(old.pop("measured", None) or {}), "x86_64-sm90": ENTRY}
    assert new == old
    # The new lines are one block; taking them out gives the old text, but for the braces that they replace.
    newline = "\r\n" if "\r\n" in before else "\n"
    start = after.index(f"  x86_64-sm90:{newline}")
    end = start
    for _ in range(len(ENTRY) + 1):
        end = after.index("\n", end) + 1
    assert kept(after[:start] + after[end:]) == kept(before)
    if newline == "\r\n":
        assert "\n" not in after.replace("\r\n", ""), "one kind of line end"


def kept(text: str) -> list[str]:
    """The lines but the one of ``measured:`` and empty ones at the end."""
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if not line.startswith("measured:")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


@given(texts())
@settings(deadline=None, max_examples=50)
def test_a_second_target_goes_in_behind_the_first(before: str) -> None:
    once = measuredtext.insert(before, "x86_64-sm90", MEASURED)
    twice = measuredtext.insert(once, "aarch64-sm121", MEASURED)
    names = list(YAML(typ="safe", pure=True).load(twice)["measured"])
    assert names[-2:] == ["x86_64-sm90", "aarch64-sm121"]
