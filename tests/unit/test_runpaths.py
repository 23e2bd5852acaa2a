"""Folders of run paths, and what findings on libraries say."""

from __future__ import annotations

import pytest

from qualify.checks.runpaths import inside
from qualify.facts import Member
from qualify.judging import judge
from qualify.matrix.model import Code, Profile
from qualify.report import Finding
from tests.support.elf import host_elf
from tests.unit.judging_support import code, context, member, wheel


def at(path: str) -> Member:
    """A member that lies there."""
    facts = wheel(files={path: host_elf()})
    return next(found for found in facts.members if found.path == path)


@pytest.mark.parametrize(
    ("path", "entry", "folder"),
    [
        ("axpy/_C.so", "$ORIGIN", "axpy"),
        ("axpy/_C.so", "${ORIGIN}", "axpy"),
        ("axpy/_C.so", "$ORIGIN/.", "axpy"),
        ("axpy/_C.so", "$ORIGIN/lib/../../axpy.libs/", "axpy.libs"),
        ("axpy/_C.so", "$ORIGIN//lib", "axpy/lib"),
        ("axpy/sub/_C.so", "$ORIGIN/../../nvidia/cu13/lib", "nvidia/cu13/lib"),
        ("axpy/_C.so", "$ORIGIN/..", ""),
        ("_C.so", "$ORIGIN", ""),
        ("_C.so", "$ORIGIN/...", "..."),
        ("axpy-1.data/platlib/axpy/_C.so", "$ORIGIN/../axpy.libs", "axpy.libs"),
        ("axpy-1.data/platlib/axpy/_C.so", "$ORIGIN/../../x", None),
        ("axpy/_C.so", "$ORIGIN/../..", None),
        ("axpy/_C.so", "$ORIGIN/../../../lib", None),
        ("_C.so", "$ORIGIN/..", None),
        ("axpy/_C.so", "$ORIGINAL/lib", None),
        ("axpy/_C.so", "$ORIGIN_/lib", None),
        ("axpy/_C.so", "/usr/lib", None),
        ("axpy/_C.so", "lib", None),
        ("axpy/_C.so", "", None),
        ("axpy-1.data/scripts/tool", "$ORIGIN/../lib", None),
    ],
)
def test_the_folder_that_an_entry_names(path: str, entry: str, folder: str | None) -> None:
    assert inside(at(path), entry) == folder


def findings(prefix: str, **options: object) -> list[Finding]:
    facts = wheel({"axpy/_C": member(code("sm_90")), "axpy/_host": member(**options)})
    return [finding for finding in judge(facts, context()).findings if finding.code.startswith(prefix)]


def test_each_entry_of_a_run_path_is_said_once() -> None:
    found = findings("LIB", rpath="/a:$ORIGIN:/b", runpath="/a:")
    assert [(finding.code, finding.found) for finding in found] == [
        ("LIB011", "run path /a"),
        ("LIB011", "run path /b"),
        ("LIB013", "an empty entry in its run path"),
    ]


def test_two_empty_entries_are_not_the_empty_list_that_loaders_ignore() -> None:
    assert [finding.code for finding in findings("LIB", runpath=":")] == ["LIB013"]
    assert findings("LIB", rpath="", runpath="") == []


def test_stubs_are_said_once_and_by_what_they_break() -> None:
    stubs = "/usr/local/cuda/lib64/stubs"
    with_driver = findings("LIB", runpath=stubs, needed=("libc.so.6", "libcuda.so.1"))
    assert [finding.code for finding in with_driver] == ["LIB012"]
    assert [finding.code for finding in findings("LIB", runpath=stubs)] == ["LIB011"]


def test_a_finding_on_a_floor_names_the_symbols_that_set_it() -> None:
    versions = {"libc.so.6": ["GLIBC_2.28", "GLIBC_2.34"], "libstdc++.so.6": ["GLIBCXX_3.4.29"]}
    symbols = [
        "malloc@GLIBC_2.28",
        *(f"{name}@GLIBC_2.34" for name in ("dlopen", "pthread_create", "dlsym", "dlclose")),
    ]
    found = {finding.code: finding for finding in findings("FLO", version_needs=versions, undefined=symbols)}
    assert found["FLO001"].found == "needs GLIBC_2.34 (dlclose, dlopen, dlsym and 1 more)"
    assert found["FLO001"].expected == "at most GLIBC_2.28"
    assert found["FLO002"].found == "needs GLIBCXX_3.4.29"
    assert found["FLO005"].found == "needs GLIBC_2.34 (dlclose, dlopen, dlsym and 1 more), GLIBCXX_3.4.29"
    assert found["FLO005"].expected == "what manylinux_2_28_x86_64 promises; the true tag is manylinux_2_34_x86_64"
    assert "retag it as manylinux_2_34_x86_64" in found["FLO005"].action


def test_a_bundled_library_is_named_with_what_it_was_known_by_and_its_size() -> None:
    library = host_elf(soname="libcudart-1a2b3c4d.so.13.0.48")
    facts = wheel(files={"axpy.libs/libcudart-1a2b3c4d.so.13.0.48": library})
    (found,) = (each for each in judge(facts, context(profile=Profile.UPSTREAM)).findings if each.code == "LIB003")
    assert found.found == "libcudart, known by libcudart-1a2b3c4d.so.13.0.48 (0.0 MB)"


def test_where_such_a_library_comes_from_it_is_no_fault() -> None:
    for name, path in (("nvidia-cuda-runtime", "nvidia/cu13/lib/libcudart.so.13"), ("torch", "torch/lib/libc10.so")):
        facts = wheel({f"{name}/_a": {"sm_90": ["k"]}}, name=name, files={path: host_elf()})
        assert not [each for each in judge(facts, context()).findings if each.code in ("LIB002", "LIB003")]


def test_the_stray_of_another_cuda_is_named_and_not_those_that_agree() -> None:
    facts = wheel(
        {
            "axpy/_C": member(code("sm_90"), needed=("libcudart.so.13", "libcusparse.so.12", "libcufft.so.12")),
            "axpy/_host": member(needed=("libcudart.so.13",)),
            "axpy/_fast": member(code("sm_90"), needed=("libnvrtc.so.12", "libcusparse.so.12")),
        }
    )
    (found,) = (each for each in judge(facts, context()).findings if each.code == "LIB008")
    assert (found.member, found.found) == ("axpy/_fast.abi3.so", "needs or brings libnvrtc.so.12 (CUDA 12)")
    assert found.expected == "CUDA 13, as libcudart.so.13 of axpy/_C.abi3.so"


def test_a_library_by_its_path_is_right_where_the_wheel_has_it() -> None:
    facts = wheel(
        {
            "other/_a": {"sm_90": ["k"]},
            "other/_b": member(code("sm_90"), needed=("$ORIGIN/libinner.so", "$ORIGIN/../libno.so")),
        },
        name="other",
        files={"other/libinner.so": host_elf()},
    )
    report = judge(facts, context(require=Code.NATIVE))
    assert [each.found for each in report.findings if each.code == "LIB016"] == ["needs $ORIGIN/../libno.so"]
