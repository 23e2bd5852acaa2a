"""Version strings taken apart, and the comparisons that equality on strings gets wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qualify.facts import FACTS_VERSION, Depth, DistInfo, VersionModule, WheelFacts
from qualify.identity import (
    CommitMatch,
    Identity,
    Policy,
    Result,
    compare,
    decide,
    identity_of_pin,
    identity_of_version,
    identity_of_wheel,
    matches_commit,
)
from qualify.matrix import load
from tests.unit.test_matrix_loader import ROOT

# text: base, dev, commit, build mode, toolkit, dirty, other
STRINGS = {
    # The five of the pin that no runnable build could satisfy, and their kin.
    "0.28.1rc1.dev132+ge126687a9.precompiled": ("0.28.1rc1", 132, "e126687a9", "precompiled", "", "", ()),
    "0.23.1rc1.dev1511+g555967922": ("0.23.1rc1", 1511, "555967922", "unstated", "", "", ()),
    "0.23.1rc1.dev1511+g555967922.precompiled": ("0.23.1rc1", 1511, "555967922", "precompiled", "", "", ()),
    "0.26.0": ("0.26.0", None, "", "unstated", "", "", ()),
    "0.26.0.dev0": ("0.26.0", 0, "", "unstated", "", "", ()),
    # A shallow clone, a full one without tags, a dirty tree at a tag.
    "0.1.dev1+gd98e3d2c4": ("0.1", 1, "d98e3d2c4", "unstated", "", "", ()),
    "0.1.dev9412+gd98e3d2c4": ("0.1", 9412, "d98e3d2c4", "unstated", "", "", ()),
    "0.26.1.dev0+g55596792a.d20260904": ("0.26.1", 0, "55596792a", "unstated", "", "20260904", ()),
    "0.16.1rc1.dev296+ga73af584f.d20260305.cu131": ("0.16.1rc1", 296, "a73af584f", "unstated", "cu131", "20260305", ()),
    # Toolkits and devices.
    "0.33.0+cu129": ("0.33.0", None, "", "unstated", "cu129", "", ()),
    "0.11.0rc2.dev17+g1234567.cu128": ("0.11.0rc2", 17, "1234567", "unstated", "cu128", "", ()),
    "0.11.0+rocm700": ("0.11.0", None, "", "rocm", "rocm700", "", ()),
    "0.9.2.dev0+gb6553be1b.rocm641": ("0.9.2", 0, "b6553be1b", "rocm", "rocm641", "", ()),
    "0.33.0+cpu": ("0.33.0", None, "", "cpu", "", "", ()),
    "0.6.3.post2.dev76+g51c24c97.cpu": ("0.6.3.post2", 76, "51c24c97", "cpu", "", "", ()),
    "0.10.1.dev3+g0a1b2c3d4.xpu": ("0.10.1", 3, "0a1b2c3d4", "xpu", "", "", ()),
    "0.33.0+tpu": ("0.33.0", None, "", "tpu", "", "", ()),
    "0.33.0+empty": ("0.33.0", None, "", "empty", "", "", ()),
    "0.33.0+precompiled": ("0.33.0", None, "", "precompiled", "", "", ()),
    "0.1.dev1+g4ba787ec9.empty": ("0.1", 1, "4ba787ec9", "empty", "", "", ()),
    # Post releases, candidates, epochs, other spellings of one version.
    "0.10.1.post1": ("0.10.1.post1", None, "", "unstated", "", "", ()),
    "0.33.0rc1+cu130": ("0.33.0rc1", None, "", "unstated", "cu130", "", ()),
    "v0.33.0-RC.1+CU130": ("0.33.0rc1", None, "", "unstated", "cu130", "", ()),
    "1!2.0": ("1!2.0", None, "", "unstated", "", "", ()),
    # Local parts of others.
    "0.9.2+thor.cu130": ("0.9.2", None, "", "unstated", "cu130", "", ("thor",)),
    "2.9.0a0+50eac811a6.nv25.9": ("2.9.0a0", None, "", "unstated", "", "", ("50eac811a6", "nv25", "9")),
    "0.33.0+gb200": ("0.33.0", None, "", "unstated", "", "", ("gb200",)),
    "0.33.0+g4ba787": ("0.33.0", None, "", "unstated", "", "", ("g4ba787",)),
    "0.33.0+dirty": ("0.33.0", None, "", "unstated", "", "dirty", ()),
    "0.33.0+cpu.precompiled": ("0.33.0", None, "", "cpu+precompiled", "", "", ()),
    "0.0.0+csrc.build": ("0.0.0", None, "", "unstated", "", "", ("csrc", "build")),
    "0.33.0+g4ba787ec9.g5ba787ec9": ("0.33.0", None, "", "unstated", "", "", ()),
}


@pytest.mark.parametrize("text", STRINGS)
def test_a_version_string_is_taken_apart(text: str) -> None:
    found = identity_of_version(text)
    assert (
        found.base,
        found.dev,
        found.commit,
        found.build_mode,
        found.toolkit,
        found.dirty,
        found.other,
    ) == STRINGS[text]


@pytest.mark.parametrize("text", ["dev", "", "0.33.0+", "1.0+g123 4567", "4ba787ec9-dirty", "latest", "\u0661\n"])
def test_what_is_no_version_says_nothing(text: str) -> None:
    found = identity_of_version(text)
    assert (found.base, found.commit, found.version()) == ("", "", "")
    assert found.notes == (f'"{text}" is no PEP 440 version',)


def test_a_declared_label_is_a_label_and_nothing_else() -> None:
    found = identity_of_version("0.33.0+g4ba787ec9.spark.a", labels=("spark.a", "thor"))
    assert (found.labels, found.other) == (("spark.a",), ())
    assert compare(found, identity_of_version("0.33.0+g4ba787ec9")).result is Result.SAME


BUILT = "0.28.1rc1.dev132+ge126687a9"

COMPARISONS = [
    (BUILT, BUILT, Result.SAME),
    (BUILT, "0.1.dev1+ge126687", Result.SAME),
    (BUILT, f"{BUILT}.precompiled", Result.OTHER_MODE),
    (BUILT, f"{BUILT}.cu129", Result.OTHER_TOOLKIT),
    (BUILT, f"{BUILT}.d20260904", Result.DIRTY),
    (f"{BUILT}.d20260904", f"{BUILT}.d20260904", Result.DIRTY),
    (BUILT, f"{BUILT}.thor", Result.OTHER_PARTS),
    (BUILT, "0.28.1rc1.dev132+ge126687b9", Result.OTHER_COMMIT),
    ("0.33.0", "0.33.0", Result.CANNOT_TELL),
    (BUILT, "dev", Result.CANNOT_TELL),
    (BUILT, "0.33.0+g4ba787ec9.g5ba787ec9", Result.CANNOT_TELL),
]


@pytest.mark.parametrize(("a", "b", "expected"), COMPARISONS)
def test_comparison_in_both_directions(a: str, b: str, expected: Result) -> None:
    one, other = identity_of_version(a), identity_of_version(b)
    assert (compare(one, other).result, compare(other, one).result) == (expected, expected)


def test_a_recorded_shell_is_met_by_a_source_build_and_not_by_the_shell() -> None:
    recorded = identity_of_version(f"{BUILT}.precompiled")
    source, shell = identity_of_version(BUILT), identity_of_version(f"{BUILT}.precompiled")
    # Equality on strings says the opposite of both.
    assert source.text != recorded.text
    assert decide(source, recorded).accepted is True
    assert shell.text == recorded.text
    assert decide(shell, recorded).accepted is False
    assert decide(shell, recorded).reason == "build mode precompiled isn't accepted (accepted: source, unstated)"


@pytest.mark.parametrize(
    ("text", "policy", "accepted", "reason"),
    [
        (f"{BUILT}.d20260904", None, False, "it was built from a changed tree (20260904), and that is no commit"),
        (f"{BUILT}.cu129", None, False, "toolkit cu129 isn't accepted"),
        (f"{BUILT}.cu129", Policy(toolkits=("cu129",)), True, "commit e126687a9, build mode unstated"),
        (BUILT, Policy(build_modes=("source",)), False, "build mode unstated isn't accepted (accepted: source)"),
        (f"{BUILT}.thor", None, False, "nothing explains thor in its version; declare it as a label if it is one"),
        ("0.33.0", None, None, 'version string "0.33.0" names no commit'),
        ("0.1.dev1+g0000000", None, False, "0000000 and e126687a9 are two commits"),
    ],
)
def test_policy(text: str, policy: Policy | None, accepted: bool | None, reason: str) -> None:
    decision = decide(identity_of_version(text), identity_of_version(BUILT), policy)
    assert (decision.accepted, decision.reason) == (accepted, reason)


@pytest.mark.parametrize(
    ("text", "commit", "expected"),
    [
        ("0.1.dev1+g4ba787ec9", "4ba787ec9", CommitMatch.SAME),
        ("0.1.dev1+g4ba787ec9", "4ba787e", CommitMatch.SAME),
        ("0.1.dev1+g4ba787e", "4ba787ec9", CommitMatch.SAME),
        ("0.1.dev1+g4ba787ec9", "4ba787", CommitMatch.CANNOT_TELL),
        ("0.1.dev1+g4ba787ec9", "", CommitMatch.CANNOT_TELL),
        ("0.1.dev1+g4ba787ec9", "4ba787ec8", CommitMatch.OTHER),
        ("0.33.0", "4ba787ec9", CommitMatch.CANNOT_TELL),
    ],
)
def test_a_commit_counts_from_seven_digits(text: str, commit: str, expected: CommitMatch) -> None:
    assert matches_commit(identity_of_version(text), commit) is expected


def wheel(version: str, *modules: VersionModule) -> WheelFacts:
    dist_info = DistInfo("", "vllm", version, "", (), (), "", "", "", (), (), "", "", "")
    return WheelFacts(
        FACTS_VERSION, Depth.KERNELS, "vllm.whl", 0, "", "vllm", version, "", (), dist_info, tuple(modules), (), (), ()
    )


RELEASE = VersionModule("vllm/_version.py", "0.33.0", "g4ba787ec9")


def test_a_release_names_its_commit_in_the_version_module() -> None:
    found = identity_of_wheel(wheel("0.33.0", RELEASE), "vllm/_version.py")
    assert (found.commit, found.commit_origin) == ("4ba787ec9", "__commit_id__ of vllm/_version.py")
    assert found.runtime == "0.33.0"


@pytest.mark.parametrize("named", ["vllm/_version.py", ""])
def test_a_version_module_counts_where_it_is_installed(named: str) -> None:
    below = replace(RELEASE, path="vllm-0.33.0.data/platlib/vllm/_version.py")
    deeper = VersionModule("vllm/a/b/c/_version.py", "1.0", "")
    assert identity_of_wheel(wheel("0.33.0", deeper, below), named).commit == "4ba787ec9"


def test_a_build_that_lost_its_commit_matches_no_pin() -> None:
    found = identity_of_wheel(wheel("0.33.0", replace(RELEASE, commit_id="")), "vllm/_version.py")
    assert matches_commit(found, "4ba787ec9") is CommitMatch.CANNOT_TELL


def test_a_wheel_that_names_two_commits_names_none() -> None:
    found = identity_of_wheel(wheel("0.33.0+g5ba787ec9", RELEASE))
    assert found.commit == ""
    assert found.notes == (
        "it names several commits: 5ba787ec9 (METADATA), 4ba787ec9 (__commit_id__ of vllm/_version.py)",
    )


def test_the_suffix_of_the_distribution_alone_is_the_build_mode() -> None:
    found = identity_of_wheel(wheel("0.1.dev1+g4ba787ec9.precompiled", replace(RELEASE, version="0.1.dev1+g4ba787ec9")))
    assert (found.build_mode, found.notes) == ("precompiled", ())


def test_runtime_and_distribution_versions_that_differ_in_more_than_a_suffix_are_noted() -> None:
    found = identity_of_wheel(wheel("0.32.0", RELEASE))
    assert found.notes == ("runtime version 0.33.0 and distribution version 0.32.0 differ in more than a suffix",)


def test_the_released_wheel_is_the_pin_s_and_a_shell_of_the_same_commit_is_not() -> None:
    pin = identity_of_pin(load(ROOT / "matrix.yaml").matrix)
    assert decide(identity_of_wheel(wheel("0.33.0", RELEASE)), pin).accepted is True
    shell = identity_of_wheel(wheel("0.33.0+precompiled", RELEASE))
    assert decide(shell, pin).accepted is False
    assert compare(shell, pin).result is Result.OTHER_MODE
    assert compare(pin, shell).result is Result.OTHER_MODE


def test_an_identity_without_a_version_prints_nothing() -> None:
    assert Identity("", "pin", identity_of_version("1").grade).version() == ""
