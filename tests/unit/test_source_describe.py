"""The rule by which tags count, as the tree states it, and what it makes of real tags."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.source_describe import Described, TagRule, computes_version, describe, tag_rule
from qualify.errors import PreflightError
from tests.unit.builders_support import git, make_repository, write_tree

SCM = "[tool.setuptools_scm]\n"


def rule_of(folder: Path, text: str, tag_match: str = "*[0-9]*") -> TagRule:
    write_tree(folder, {"pyproject.toml": text})
    return tag_rule(folder, tag_match)


@pytest.mark.parametrize(
    ("text", "options", "match", "exclude"),
    [
        (SCM, ("--tags",), ("*[0-9]*",), ()),
        (SCM + 'git_describe_command = "git describe --dirty --tags --long --match v*"', ("--tags",), ("v*",), ()),
        (SCM + 'git_describe_command = ["git", "describe", "--long", "--match=v*.*"]', (), ("v*.*",), ()),
        (
            SCM + "git_describe_command = \"git describe --first-parent --match 'a b*' --exclude '*rc*' --match=c\"",
            ("--first-parent",),
            ("a b*", "c"),
            ("*rc*",),
        ),
        ('[tool.setuptools_scm.scm.git]\ndescribe_command = "git describe --match x*"', (), ("x*",), ()),
        (SCM + 'tag = {prefix = "py-", strict = true}', ("--tags",), ("py-*[0-9]*.*[0-9]*",), ()),
        (SCM + 'git_describe_command = "git describe --candidates 7 --abbrev=9"', ("--candidates=7",), (), ()),
        ("", ("--tags",), ("*[0-9]*",), ()),
    ],
)
def test_the_rule_that_a_tree_states(
    tmp_path: Path, text: str, options: tuple[str, ...], match: tuple[str, ...], exclude: tuple[str, ...]
) -> None:
    rule = rule_of(tmp_path, text)
    assert (rule.options, rule.match, rule.exclude) == (options, match, exclude)


def test_the_matrix_over_the_tree(tmp_path: Path) -> None:
    rule = rule_of(tmp_path, SCM + 'git_describe_command = "hg log"', "v*")
    assert (rule.match, rule.needed, rule.stated) == (("v*",), True, "build.tag_match of the matrix")


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ('"touch ran"', "is not run"),
        ('["sh", "-c", "touch ran"]', "is not run"),
        ('"git -c core.pager=x describe"', "is not run"),
        ('"git describe --match v* --contains"', "has --contains, which is not known"),
        ('"git describe HEAD~3"', "has HEAD~3, which is not known"),
        ('"git describe \'"', "is not run"),
        ("7", "is not run"),
    ],
)
def test_a_command_that_is_not_followed(
    tmp_path: Path, command: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PreflightError, match=what) as caught:
        rule_of(tmp_path, f"{SCM}git_describe_command = {command}")
    assert "build.tag_match" in caught.value.action
    assert not (tmp_path / "ran").exists()


def test_settings_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="cannot be read"):
        rule_of(tmp_path, "[tool")


@pytest.mark.parametrize(
    ("files", "computed"),
    [
        ({"pyproject.toml": SCM}, True),
        ({"pyproject.toml": "[project]\nname = 'a'\nversion = '1'\n"}, False),
        (
            {"pyproject.toml": "[project]\ndynamic = ['version']\n[build-system]\nrequires = ['setuptools-scm>=8']"},
            True,
        ),
        ({"pyproject.toml": "[build-system]\nrequires = ['hatch-vcs']"}, True),
        ({"setup.py": "setup(use_scm_version=True)"}, True),
        ({"setup.py": "setup(version='1')"}, False),
        ({}, False),
    ],
)
def test_whether_the_version_comes_from_tags(tmp_path: Path, files: dict[str, str], computed: bool) -> None:
    assert computes_version(write_tree(tmp_path, files)) is computed


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("v1.2", "1.2"),
        ("1.2rc1", "1.2rc1"),
        ("tiny-1.2", "1.2"),
        ("Tiny_Lib-v1.2", None),
        ("release-1.2", "1.2"),
        ("nightly-20260101", None),
        ("llvm-18.1.2", None),
        ("v1.2-beta-of-something", None),
        ("build7", None),
        ("v1.2+local", "1.2"),
    ],
)
def test_what_a_tag_names_by_the_default_rule(tag: str, version: str | None) -> None:
    found = TagRule().version(tag, "tiny")
    assert (None if found is None else str(found)) == version


def test_what_a_tag_names_by_the_trees_own_rule() -> None:
    assert str(TagRule(regex=r"^ship/(?P<version>.+)$").version("ship/3.1", "tiny")) == "3.1"
    assert str(TagRule(regex=r"^ship/(.+)$").version("ship/3.1", "tiny")) == "3.1"
    assert TagRule(regex=r"^ship/(.+)$").version("v3.1", "tiny") is None
    assert TagRule(regex="(").version("v3.1", "tiny") is None
    assert str(TagRule(prefix="py-").version("py-3.1", "tiny")) == "3.1"


def commits(folder: Path, *tags: str) -> str:
    """One more commit for each tag, the last one nearest."""
    for tag in tags:
        git(folder, "commit", "-q", "--allow-empty", "-m", tag)
        git(folder, "tag", tag)
    return git(folder, "rev-parse", "HEAD")


def test_annotated_tags_alone_where_the_rule_says_so(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    make_repository(repository)
    rule = TagRule(options=())
    with pytest.raises(PreflightError, match="annotated tags alone"):
        describe(repository, rule, "tiny", "here")
    git(repository, "tag", "-am", "said", "v1.5")
    assert describe(repository, rule, "tiny", "here").tag == "v1.5"


def test_the_nearest_that_is_a_version(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    make_repository(repository)
    head = commits(repository, "v1.1", "v1.2")
    assert describe(repository, TagRule(), "tiny", "here") == Described("v1.2", 0, f"v1.2-0-g{head}")


@pytest.mark.parametrize("tags", [("nightly-1",), ("nightly-1", "llvm-18.1", "build7")])
def test_nearer_tags_of_something_else(tmp_path: Path, tags: tuple[str, ...]) -> None:
    repository = tmp_path / "r"
    make_repository(repository)
    commits(repository, *tags)
    with pytest.raises(PreflightError, match=rf"the nearest tag is {tags[-1]}, .* while v1\.0 \(1\.0\)"):
        describe(repository, TagRule(), "tiny", "here")
    # The tree leaves them out by its own rule.
    assert describe(repository, TagRule(match=("v[0-9]*",)), "tiny", "here").tag == "v1.0"


def test_tags_that_are_all_written_in_another_way(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    make_repository(repository, tag="")
    commits(repository, "other-1.0", "other-1.1")
    assert describe(repository, TagRule(), "tiny", "here").tag == "other-1.1"
    with pytest.raises(PreflightError, match=r"the nearest tag is other-1\.1, which is no version;|no version"):
        describe(repository, TagRule(regex="^v(.+)$"), "tiny", "here")


def test_no_tag_at_all(tmp_path: Path) -> None:
    repository = tmp_path / "r"
    make_repository(repository, tag="words")
    with pytest.raises(PreflightError, match=r"no tag that matches \*\[0-9\]\* is reachable") as caught:
        describe(repository, TagRule(), "tiny", "here")
    assert "git push --tags" in caught.value.action
    assert describe(repository, TagRule(needed=False), "tiny", "here") == Described()
    with pytest.raises(PreflightError, match=r"matches x\* and not y\*"):
        describe(repository, TagRule(match=("x*",), exclude=("y*",)), "tiny", "here")
