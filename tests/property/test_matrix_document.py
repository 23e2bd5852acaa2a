"""The reading of scalars, against ruamel.yaml's own of both YAML versions; and no text that breaks the reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import ScalarNode

from qualify.matrix.document import classify, parse
from qualify.matrix.rules import absolute_paths

SCALARS = st.one_of(
    st.from_regex(r"\A[-+]?[0-9_:.eExXob]{1,8}\Z"),
    st.from_regex(r"\A[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}\Z"),
    st.sampled_from(["y", "n", "yes", "no", "on", "off", "true", "false", "True", "NO", "~", "null"]),
    st.sampled_from([".inf", "-.inf", ".nan", "0o17", "0b11", "1_000", "190:20:30"]),
    st.text("abcdefyn.0123456789+-_", min_size=1, max_size=10),
)


def tags(text: str) -> set[str]:
    """What readers of YAML 1.1 and of 1.2 take a plain scalar for."""
    found = set()
    for version in ((1, 1), (1, 2)):
        reader = YAML(typ="safe", pure=True)
        reader.version = version
        node = reader.compose(f"k: {text}\n").value[0][1]
        found.add(str(node.tag) if isinstance(node, ScalarNode) and not node.style else "collection")
    return found


@given(SCALARS)
def test_whatever_a_yaml_reader_takes_for_a_number_a_date_or_a_boolean_is_noticed(text: str) -> None:
    try:
        found = tags(text)
    except YAMLError:
        return
    if found & {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "null", "timestamp")}:
        assert classify(text) is not None


@pytest.mark.parametrize("text", ["4ba787ec9", "cuda", "13.0.3", "vllm==0.33.0", "x86_64", "native", "sm_90a", "a1e5"])
def test_plain_words_stay_words(text: str) -> None:
    assert classify(text) is None


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("3.10", "the number 3.1"),
        ("0123456", "the number 42798"),
        ("-012", "the number -10"),
        ("0x1F", "the number 31"),
        ("1:30", "the number 90"),
        ("12e4", "the number 120000.0"),
        ("1_0", "the number 10"),
        ("-_", "a number"),
        ("9" * 300, "a number"),
        ("~", "nothing"),
        ("Off", "false"),
    ],
)
def test_the_reading_is_named(text: str, reading: str) -> None:
    typed = classify(text)
    assert typed is not None
    assert typed.reading == reading


@given(st.one_of(st.text(max_size=60), st.text("{}[]:-,&*!|>'\"#% \n\tab01.", max_size=60)))
def test_no_text_breaks_the_reader(text: str) -> None:
    document = parse(text)
    assert isinstance(document.value, dict)
    assert document.readable or document.problems


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("/opt/x", True),
        ("~/x", True),
        ("~", True),
        ("file:///x", True),
        ("C:/x", True),
        ("-DA=/opt/x", True),
        ("a:/opt/x", True),
        ("a; /opt/x", True),
        ("https://example.org/x", False),
        ("ssh://builder@example.org/x", False),
        ("torch ~=2.0", False),
        ("csrc/x", False),
        ("kernels / functions", False),
        ("../x", False),
        ("vllm==0.33.0", False),
    ],
)
def test_what_counts_as_a_path_of_one_machine(text: str, refused: bool) -> None:
    document = parse(f"k: '{text}'\n")
    assert bool(list(absolute_paths(document))) == refused
