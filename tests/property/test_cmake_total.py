"""Any text at all is read, or refused with its line: no other error, and no hang."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import assume, example, given
from hypothesis import strategies as st

from builders.externals_cmake import CMakeError, Command, read_commands
from builders.externals_conditions import evaluate

PIECES = [
    "if(",
    "elseif(A)",
    "else()",
    "endif()",
    "return()",
    "set(",
    "A",
    " ",
    "\n",
    ")",
    "(",
    '"',
    "[[",
    "]]",
    "[=[",
    "]=]",
]
PIECES += ["#", "\\", ";", "${A}", "$ENV{B}", "function(f)", "endfunction()", "NOT", "AND", "STREQUAL", "é", "\0", "\r"]

texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
words = st.lists(
    st.sampled_from(["NOT", "AND", "OR", "(", ")", "A", '"A"', "STREQUAL", "DEFINED", "TRUE", "OFF", "${A}", "X"])
)


def read(text: str) -> tuple[Command, ...] | CMakeError:
    try:
        return read_commands(text)
    except CMakeError as error:
        return error


@given(texts)
def test_text_is_read_or_refused_with_a_line_of_it(text: str) -> None:
    found = read(text)
    lines = [found.line] if isinstance(found, CMakeError) else [command.line for command in found]
    assert all(1 <= line <= text.count("\n") + 1 for line in lines)
    assert lines == sorted(lines)


def written(command: Command) -> str:
    """The command as CMake reads it back, each argument in brackets."""
    return f"{command.name}({' '.join(f'[===[{argument.text}]===]' for argument in command.arguments)})"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="[]\n")), max_size=8))
def test_what_is_written_in_brackets_reads_back_as_it_was(arguments: list[str]) -> None:
    text = "call(" + " ".join(f"[=[{argument}]=]" for argument in arguments) + ")"
    (command,) = read_commands(text)
    assert list(command.words) == arguments
    (again,) = read_commands(written(command))
    assert again.words == command.words


def balanced(condition: list[str]) -> bool:
    """Whether each parenthesis closes one that was opened before it."""
    depths = list(accumulate({"(": 1, ")": -1}.get(word, 0) for word in condition))
    return min(depths, default=0) >= 0 and (not depths or depths[-1] == 0)


@example(["AND", ")", "AND", "OFF", "AND"], {})
@example(["OFF", "AND", "AND"], {})
@given(words, st.dictionaries(st.sampled_from(["A", "X"]), st.sampled_from(["", "A", "ON", "0"])))
def test_a_condition_and_its_negation_answer_opposite_or_not_at_all(
    condition: list[str], variables: dict[str, str]
) -> None:
    assume(balanced(condition))  # as every command's arguments are
    answer = evaluate(condition, variables)
    assert evaluate(["NOT", "(", *condition, ")"], variables) is (None if answer is None else not answer)
