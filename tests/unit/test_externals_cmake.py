"""Reading CMake's grammar and its branches."""

from __future__ import annotations

import pytest

from builders.externals_cmake import CMakeError, read_commands
from builders.externals_conditions import evaluate, shown, walked

CUDA = {"DEVICE": "cuda"}


def words(text: str) -> list[tuple[str, ...]]:
    return [(command.name, *command.words) for command in read_commands(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("set(A b)", [("set", "A", "b")]),
        ("SET (A b c)", [("set", "A", "b", "c")]),
        ("set(A b;c)", [("set", "A", "b", "c")]),
        ('set(A "b c")', [("set", "A", "b c")]),
        ('set(A "b\\"c")', [("set", "A", 'b\\"c')]),
        ('set(A "one\\\ntwo")', [("set", "A", "onetwo")]),
        ("set(A [[b) #c]])", [("set", "A", "b) #c")]),
        ("set(A [==[b]]c]==])", [("set", "A", "b]]c")]),
        ("set(A # no ) here\n b)", [("set", "A", "b")]),
        ("#[[ set(A b) ]] set(C d)", [("set", "C", "d")]),
        ("#[=[ ]] \n ]=]set(C d)", [("set", "C", "d")]),
        ('set(A -Dx="y z")', [("set", "A", '-Dx="y z"')]),
        ("set(A $<$<CONFIG:Debug>:x> ${B} $ENV{C})", [("set", "A", "$<$<CONFIG:Debug>:x>", "${B}", "$ENV{C}")]),
        ("set(A a\\ b)", [("set", "A", "a\\ b")]),
        ("call((a) b)", [("call", "(", "a", ")", "b")]),
        ("set(A)\n\n  set(B)", [("set", "A"), ("set", "B")]),
        ("", []),
    ],
)
def test_the_grammar(text: str, expected: list[tuple[str, ...]]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("set(A b", 1, "never closes"),
        ('x()\nset(A "b)', 2, "quoted argument"),
        ("x()\n\nset(A [=[b]])", 3, "bracket argument"),
        ("#[[ open", 1, "bracket comment"),
        ("set A", 1, "expected ( after set"),
        ("x()\n= b", 2, "expected a command"),
        ("if(A)\nset(B)", 1, "never closes"),
        ("endif()", 1, "endif without if"),
        ("else()", 1, "else without if"),
        ("endfunction()", 1, "without its beginning"),
        ("if(" + "(" * 300 + ")" * 300 + ")\nendif()", 1, "too deeply"),
        ("if(A)\n" * 300, 201, "too deeply"),
        ("x" * ((4 << 20) + 1), 0, "more than a CMake file has"),
    ],
)
def test_what_breaks_the_grammar_is_an_error_with_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(CMakeError, match=what.replace("(", r"\(")) as caught:
        read_commands(text)
    assert caught.value.line == line


def test_lines_count_from_the_command() -> None:
    assert [command.line for command in read_commands("a()\n# x\nb(\n c)\n\nd()")] == [1, 3, 6]


def branches_of(text: str) -> list[str]:
    last = [command for command in read_commands(text) if command.name == "here"]
    return [shown(branch) for branch in last[0].branches]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if(A)\nhere()\nendif()", ["A"]),
        ("if(A)\nelse()\nhere()\nendif()", ["NOT (A)"]),
        ("if(A)\nelseif(B)\nhere()\nendif()", ["NOT (A) AND B"]),
        ("if(A)\nelseif(B)\nelse()\nhere()\nendif()", ["NOT (A) AND NOT (B)"]),
        ("if(A)\nif(B)\nhere()\nendif()\nendif()", ["A", "B"]),
        ("if(A)\nendif()\nhere()", []),
        ("if(A)\nreturn()\nendif()\nhere()", ["NOT (( A ))"]),
        ("if(A)\nif(B)\nelse()\nreturn()\nendif()\nendif()\nhere()", ["NOT (( A ) AND NOT ( B ))"]),
        ("return()\nhere()", ["NOT (TRUE)"]),
        ("function(f)\nreturn()\nendfunction()\nhere()", []),
        ("foreach(x a b)\nhere()\nendforeach()", []),
    ],
)
def test_branches(text: str, expected: list[str]) -> None:
    assert branches_of(text) == expected


def test_a_function_body_is_named() -> None:
    commands = read_commands("macro(m)\nset(A b)\nendmacro()\nset(C d)")
    assert [command.body for command in commands if command.name == "set"] == ["m", ""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('DEVICE STREQUAL "cuda"', True),
        ('DEVICE STREQUAL "cpu"', False),
        ("DEVICE STREQUAL cuda", True),
        ('"${DEVICE}" STREQUAL "cuda"', True),
        ("${DEVICE} STREQUAL cpu", False),
        ('"cuda" STREQUAL "cuda"', True),
        ('OTHER STREQUAL "cuda"', None),
        ('"${OTHER}" STREQUAL "cuda"', None),
        ('NOT DEVICE STREQUAL "cuda"', False),
        ('NOT OTHER STREQUAL "cuda"', None),
        ('DEVICE STREQUAL "cpu" AND OTHER', False),
        ('OTHER AND DEVICE STREQUAL "cpu"', False),
        ('DEVICE STREQUAL "cuda" OR OTHER', True),
        ("OTHER OR UNKNOWN", None),
        ('( DEVICE STREQUAL "cpu" OR DEVICE STREQUAL "cuda" ) AND TRUE', True),
        ("TRUE", True),
        ("OFF", False),
        ('""', False),
        ("x-NOTFOUND", False),
        ("OTHER", None),
        ("DEFINED DEVICE", True),
        ("DEFINED OTHER", None),
        ("EXISTS /somewhere", None),
        ("A VERSION_LESS 13", None),
        # Broken ones decide nothing.
        ("NOT", None),
        ("DEVICE STREQUAL", None),
        ("( TRUE", None),
        ("TRUE )", None),
        ("", None),
    ],
)
def test_conditions_are_true_false_or_not_known(text: str, expected: bool | None) -> None:
    assert evaluate(text.split(), CUDA) is expected


def test_an_endless_condition_decides_nothing() -> None:
    assert evaluate(["NOT"] * 100_000 + ["TRUE"], CUDA) is None


def test_a_branch_is_walked_where_those_before_it_are_not() -> None:
    text = 'if(DEVICE STREQUAL "cpu")\na()\nelseif(OTHER)\nb()\nelse()\nc()\nendif()\n'
    answers = {command.name: [walked(branch, CUDA) for branch in command.branches] for command in read_commands(text)}
    assert answers == {"a": [False], "b": [None], "c": [None]}
