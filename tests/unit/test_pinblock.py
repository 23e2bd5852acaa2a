"""The block of a pin in somebody's Markdown: what is read, what is refused and where, and that nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualify import pinblock
from qualify.errors import ConfigurationError, RefusedError
from qualify.identity import CommitMatch, commit_match, decide, identity_of_block, identity_of_version

COMMIT = "5559679229bc961848b121ccdeaa8fa5d79bec98"
LINES = (
    f"vllm_commit = {COMMIT}",
    "vllm_runtime_version = 0.23.1rc1.dev1511+g555967922",
    "vllm_distribution_version = 0.23.1rc1.dev1511+g555967922.precompiled",
    "flashinfer_version = 0.6.15.post1",
)
BEFORE, AFTER = "# The pin\n\nRead by machines and people.\n\n", "\nOther words.\n"


def page(*lines: str, before: str = BEFORE, after: str = AFTER, end: str = "\n") -> bytes:
    return (before + end.join(lines or LINES) + end + after).encode()


def test_a_block_is_read_with_its_lines() -> None:
    block = pinblock.read(page(), "PIN.md")
    assert (block.project, block.commit, block.first_line, block.last_line) == ("vllm", COMMIT, 5, 8)
    assert list(block.values().values()) == [line.partition(" = ")[2] for line in LINES]


@pytest.mark.parametrize(
    "data",
    [
        page(*(f"    {line}" for line in LINES)),
        page(*(f"> {line}" for line in LINES)),
        page(*reversed(LINES)),
        page(*(line.replace(" = ", "=") for line in LINES)),
        page(*(f"{line}  " for line in LINES)),
        page(end="\r\n"),
        page(after="")[:-1],
        b"\xef\xbb\xbf" + page(),
        b"\xef\xbb\xbf" + page(before=""),
        page(before="```parity-pin\n", after="``` \nText with ```code``` in it.\n```sh\n"),
        page(before="~~~~\n```\n", after="~~~~~"),
        page(before="```toml\n", after="```\n"),
        page(before="a\u2028vllm_commit = nothing\u0085\x0b\x0cvllm_commit = nothing\n"),
    ],
    ids=[
        "indented",
        "quoted",
        "reversed",
        "no-blanks",
        "blanks-at-ends",
        "CRLF",
        "no-final-newline",
        "BOM",
        "BOM-before-the-first-line",
        "fenced-with-a-word",
        "a-fence-in-a-fence",
        "fenced",
        "U+2028",
    ],
)
def test_whatever_markdown_is_around_it(data: bytes) -> None:
    block = pinblock.read(data, "PIN.md")
    assert block.commit == COMMIT
    assert pinblock.replace(data, "PIN.md", block.values()) == data


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        (b"", "PIN.md", "no block: no line is PROJECT_runtime_version"),
        (page(*LINES[:3]), "PIN.md:7", "the block lacks flashinfer_version"),
        (
            page(before="```parity-pin\n", after="")[:-1],
            "PIN.md:5",
            "the block ends with the file, and the fence of line 1",
        ),
        (page(before="````\n", after="```\n"), "PIN.md:5", "the block ends with the file, and the fence of line 1"),
        (page(before="```\n", after="~~~\n"), "PIN.md:5", "the block ends with the file, and the fence of line 1"),
        (page(*LINES, f"vllm_asserted_commit = {'a' * 40}"), "PIN.md:6", "the block asserts commit aaaa"),
        (page(*LINES, "vllm_asserted_commit = 555967922"), "PIN.md:9", "vllm_asserted_commit is '555967922'"),
        (page(f"vllm_asserted_commit = {COMMIT}"), "PIN.md", "no block: no line is PROJECT_runtime_version"),
        (page(*LINES[1:]), "PIN.md:7", "the block lacks vllm_commit"),
        (page(*LINES, "", *LINES), "PIN.md:10", "vllm_commit stands here and in line 5"),
        (page(*LINES, LINES[3]), "PIN.md:9", "flashinfer_version stands here and in line 8"),
        (page(*LINES[:2], "", *LINES[2:]), "PIN.md:5", "the lines of the block don't stand together"),
        (page(*LINES[:2], f"  {LINES[2]}", LINES[3]), "PIN.md:5", "the lines of the block are indented differently"),
        (page("vllm_commit = 555967922", *LINES[1:]), "PIN.md:5", "vllm_commit is '555967922'"),
        (page("vllm_commit = " + "g" * 40, *LINES[1:]), "PIN.md:5", "vllm_commit is 'ggg"),
        (page("vllm_commit =", *LINES[1:]), "PIN.md:5", "b'' is no value"),
        (page(*LINES[:3], "flashinfer_version = 0.6\x0b15"), "PIN.md:8", "b'0.6\\x0b15' is no value"),
        (page(*LINES[:3], "flashinfer_version = 0.6 15"), "PIN.md:8", "b'0.6 15' is no value"),
        (
            page(*LINES[:3], "flashinfer_version = soon"),
            "PIN.md:8",
            "flashinfer_version is 'soon', which is no version",
        ),
        (
            page(LINES[0], "vllm_runtime_version = 0.26.0", *LINES[2:]),
            "PIN.md:6",
            "the runtime version 0.26.0 names no commit",
        ),
        (
            page(LINES[0], "vllm_runtime_version = 0.23.1+gabcdef012", *LINES[2:]),
            "PIN.md:6",
            "the runtime version 0.23.1+gabcdef012 names commit abcdef012, and the block",
        ),
        (page(*LINES, *(line.replace("vllm", "omni") for line in LINES[:3])), "PIN.md", "blocks of several projects"),
    ],
)
def test_what_is_refused_and_where(data: bytes, where: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        pinblock.read(data, "PIN.md")
    assert (refused.value.where, refused.value.what.startswith(what)) == (where, True), refused.value.what


def test_of_several_projects_the_named_one() -> None:
    data = page(*(line.replace("vllm", "omni") for line in LINES[:3]), *LINES)
    assert pinblock.read(data, "PIN.md", "vllm").first_line == 8
    with pytest.raises(ConfigurationError, match="no block of other_thing"):
        pinblock.read(data, "PIN.md", "other-thing")


def test_a_huge_file_is_no_page() -> None:
    with pytest.raises(ConfigurationError, match="is larger than 16 MiB"):
        pinblock.read(b"a" * (pinblock.MAX_SIZE + 1), "PIN.md")


RELEASE = (
    f"vllm_commit = {COMMIT}",
    f"vllm_asserted_commit = {COMMIT}",
    "vllm_runtime_version = 0.26.0",
    "vllm_distribution_version = 0.26.0",
    "flashinfer_version = 0.6.15.post1",
)


def test_a_plain_release_may_stand_in_a_block_that_asserts_its_commit_itself() -> None:
    block = pinblock.read(page(*RELEASE), "PIN.md")
    assert (block.runtime_version, block.asserted_commit) == ("0.26.0", COMMIT)
    assert "vllm_asserted_commit" not in block.values()
    after = pinblock.replace(page(*RELEASE), "PIN.md", {"vllm_runtime_version": "0.26.1"})
    assert after == page(*RELEASE).replace(b"runtime_version = 0.26.0", b"runtime_version = 0.26.1")


def test_what_a_person_asserts_is_never_written() -> None:
    other = "a" * 40
    for values in ({"vllm_asserted_commit": other}, {"vllm_commit": other}):
        with pytest.raises(RefusedError):
            pinblock.replace(page(*RELEASE), "PIN.md", values)


NEW = {
    "vllm_commit": "e126687a9" + "0" * 31,
    "vllm_runtime_version": "0.28.1rc1.dev132+ge126687a9",
    "vllm_distribution_version": "0.28.1rc1.dev132+ge126687a9",
    "flashinfer_version": "0.7.2",
}


def test_new_values_and_nothing_else() -> None:
    data = page(*(f"\t{line} " for line in LINES), end="\r\n")
    after = pinblock.replace(data, "PIN.md", NEW)
    expected = data.decode()
    for line in LINES:
        key, _, value = line.partition(" = ")
        expected = expected.replace(f"{key} = {value} ", f"{key} = {NEW[key]} ")
    assert after.decode() == expected


@pytest.mark.parametrize(
    "values",
    [
        {**NEW, "vllm_runtime_version": "0.33.0"},
        {"vllm_commit": NEW["vllm_commit"]},
        {**NEW, "flashinfer_version": "0.7\n0.8"},
        {**NEW, "flashinfer_version": ""},
        {**NEW, "torch_version": "2.14.0"},
    ],
    ids=["a plain release", "another commit's version stays", "two lines", "nothing", "a key that it hasn't"],
)
def test_values_that_no_block_may_hold_are_not_written(values: dict[str, str]) -> None:
    with pytest.raises(RefusedError):
        pinblock.replace(page(), "PIN.md", values)


around = st.text(st.characters(blacklist_categories=("Cs",)), max_size=60).filter(lambda text: "_" not in text)


@given(around, around, st.sampled_from(["\n", "\r\n"]))
def test_what_is_around_it_stays_byte_for_byte(before: str, after: str, end: str) -> None:
    data = page(before=f"{before}\n", after=after, end=end)
    written = pinblock.replace(data, "PIN.md", NEW)
    assert pinblock.read(written, "PIN.md").values() == NEW
    assert pinblock.replace(written, "PIN.md", pinblock.read(data, "PIN.md").values()) == data


def test_the_recorded_precompiled_install_is_met_by_a_source_build_and_by_no_precompiled_one() -> None:
    """The bind: equality on strings takes the shell that runs nothing, and refuses the build that runs."""
    recorded = identity_of_block(pinblock.read(page(), "PIN.md"))
    built = identity_of_version("0.23.1rc1.dev1511+g555967922")
    shell = identity_of_version("0.23.1rc1.dev1511+g555967922.precompiled")
    assert shell.text == recorded.text != built.text
    assert decide(built, recorded).accepted is True
    assert decide(shell, recorded).accepted is False
    assert "build mode precompiled isn't accepted" in decide(shell, recorded).reason
    assert commit_match(recorded.commit, built.commit) is CommitMatch.SAME
