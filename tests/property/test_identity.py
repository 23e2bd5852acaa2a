"""Laws of identities: parse and print are inverse, comparison is symmetric, two commits are never the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from packaging.version import InvalidVersion, Version

from qualify.identity import CommitMatch, Result, commit_match, compare, decide, identity_of_version

HEX = st.text("0123456789abcdef", min_size=7, max_size=40)
SEGMENTS = st.one_of(
    HEX.map(lambda digits: f"g{digits}"),
    st.sampled_from(["precompiled", "empty", "cpu", "rocm700", "cu129", "d20260904", "dirty", "thor", "7", "nv25"]),
    st.from_regex(r"\A[a-z0-9]{1,8}\Z"),
)
PUBLIC = st.builds(
    lambda numbers, pre, post, dev: ".".join(map(str, numbers)) + pre + post + dev,
    st.lists(st.integers(0, 99), min_size=1, max_size=4),
    st.sampled_from(["", "rc1", "a0", "b12"]),
    st.sampled_from(["", ".post1"]),
    st.sampled_from(["", ".dev0", ".dev1511"]),
)
VERSIONS = st.builds(
    lambda public, local: public + (f"+{'.'.join(local)}" if local else ""), PUBLIC, st.lists(SEGMENTS, max_size=4)
)


@given(VERSIONS)
def test_parse_and_print_are_inverse(text: str) -> None:
    found = identity_of_version(text)
    assert found.version() == str(Version(text))
    again = identity_of_version(found.version())
    assert (again.commit, again.build_mode, again.toolkit, again.dirty, again.other, again.local) == (
        found.commit,
        found.build_mode,
        found.toolkit,
        found.dirty,
        found.other,
        found.local,
    )


@given(VERSIONS, VERSIONS)
def test_comparison_is_symmetric(a: str, b: str) -> None:
    one, other = identity_of_version(a), identity_of_version(b)
    assert compare(one, other).result is compare(other, one).result


@given(VERSIONS, HEX, HEX)
def test_two_commits_are_never_the_same(text: str, first: str, second: str) -> None:
    public = text.partition("+")[0]
    one, other = (identity_of_version(f"{public}+g{commit}") for commit in (first, second))
    comparison = compare(one, other)
    assert (comparison.result is Result.SAME) == (first.startswith(second) or second.startswith(first))
    assert (commit_match(first, second) is CommitMatch.OTHER) == (comparison.result is Result.OTHER_COMMIT)


@given(VERSIONS)
def test_what_is_accepted_names_a_commit_is_clean_and_in_a_mode_that_counts(text: str) -> None:
    found = identity_of_version(text)
    if decide(found, found).accepted:
        assert found.commit
        assert not found.dirty
        assert found.build_mode in ("source", "unstated")


@given(st.text(max_size=40))
def test_any_text_gives_an_identity_and_no_text_is_guessed_into_a_version(text: str) -> None:
    found = identity_of_version(text)
    try:
        expected = str(Version(text))
    except InvalidVersion:
        expected = ""
    assert found.version() == expected
