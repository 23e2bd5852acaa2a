"""Whatever a wheel holds, judging it ends with a report: no check raises, and none takes the blame on itself."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualify.arch import ARCHITECTURES, ComputeCapability
from qualify.facts import (
    FACTS_VERSION,
    Compression,
    Container,
    Depth,
    DistInfo,
    Elf,
    Entry,
    EntryKind,
    Member,
    MemberKind,
    Problem,
    RecordRow,
    VersionModule,
    VersionNeed,
    WheelFacts,
)
from qualify.judging import BareTarget, Context, judge
from qualify.matrix.model import Code, Profile
from qualify.report import Verdict
from qualify.reportjson import from_json, to_json
from tests.unit.judging_support import HOPPER, MATRIX, matrix

SYMBOLS = ("k0", "k1", "marlin", "vital")
anything = st.text(max_size=12)
paths = st.sampled_from(("axpy/_C.abi3.so", "axpy/_host.so", "axpy/_listed.so", "axpy.pth", "a/b.so.1")) | anything
versions = st.sampled_from(("0.1.0", "0.1.0+g0123456789ab.d20260904", "9" * 5000, "1.0+x", ">=3.11", "3.12")) | anything
architectures = (
    st.builds(
        lambda prefix, number, suffix: f"{prefix}_{number}{suffix}",
        st.sampled_from(("sm", "compute")),
        st.sampled_from(sorted(ARCHITECTURES)),
        st.sampled_from(("", "a", "f")),
    )
    | anything
)
kernels = st.sets(st.integers(0, len(SYMBOLS) - 1)).map(lambda chosen: tuple(sorted(chosen)))
tags = st.builds(
    lambda interpreter, abi, platform: f"{interpreter}-{abi}-{platform}",
    st.sampled_from(("cp311", "cp38", "py3", "pp310", "cp" + "9" * 50)),
    st.sampled_from(("abi3", "none", "cp311")),
    st.sampled_from(("manylinux_2_28_x86_64", "linux_aarch64", "any", "manylinux2014_x86_64", "win_amd64", "x")),
)
entries = st.builds(
    Entry,
    kind=st.sampled_from(EntryKind),
    raw_kind=st.integers(0, 9),
    architecture=architectures,
    isa=versions,
    toolkit=versions,
    compression=st.sampled_from(Compression),
    stored_size=st.just(1),
    size=st.just(1),
    debug=st.booleans(),
    kernels=kernels,
    functions=st.just(()),
    readable=st.booleans(),
)
containers = st.builds(
    Container, section=anything, offset=st.integers(0, 99), entries=st.lists(entries, max_size=3).map(tuple)
)
needs = st.builds(
    VersionNeed,
    library=st.sampled_from(("libc.so.6", "libstdc++.so.6", "libz.so.1")) | anything,
    version=st.sampled_from(
        (
            "GLIBC_2.34",
            "ZLIB_1.2.9",
            "CXXABI_FLOAT128",
            "GLIBC_",
            "GLIBC_2.x",
            "GLIBCXX_3.4.99",
            "GLIBC_PRIVATE",
            "GLIBC_1..2",
        )
    )
    | anything,
)
libraries = st.sampled_from(("libcudart.so.12", "libz-1a2b3c4d.so.1", "libtorch.so", "/a/b.so", "libpython3.so"))
folders = st.sampled_from(("$ORIGIN/../..", "${ORIGIN}", "", "/usr/stubs", "lib", "$ORIGIN/x.so.1", "$ORIGINAL"))
elves = st.builds(
    Elf,
    needed=st.lists(libraries | anything, max_size=4).map(tuple),
    rpath=st.lists(folders | anything, max_size=3).map(tuple),
    runpath=st.lists(folders | anything, max_size=3).map(tuple),
    bits=st.sampled_from((32, 64)),
    little_endian=st.booleans(),
    machine=st.sampled_from(("x86_64", "aarch64", "cuda", "em-7")),
    version_needs=st.lists(needs, max_size=3).map(tuple),
)
members = st.builds(
    Member,
    path=paths,
    kind=st.sampled_from(MemberKind),
    sha256=st.sampled_from(("", "0" * 64)),
    elf=st.none() | elves,
    symbols=st.just(SYMBOLS),
    containers=st.lists(containers, max_size=2).map(tuple),
)
rows = st.builds(RecordRow, path=paths, hash=st.sampled_from(("", "sha256=", "sha256=!", "md5=x", "sha3=")) | anything)
info = st.builds(
    DistInfo,
    folder=st.sampled_from(("axpy-0.1.0.dist-info", "", "x", "-.dist-info")),
    metadata_version=versions,
    requires_python=versions,
    wheel_version=versions,
    record=st.lists(rows, max_size=3).map(tuple),
    files=st.lists(st.sampled_from(("METADATA", "WHEEL", "RECORD")), max_size=3).map(tuple),
)
facts = st.builds(
    WheelFacts,
    version=st.just(FACTS_VERSION),
    depth=st.just(Depth.KERNELS),
    name=st.sampled_from(("axpy", "other")),
    wheel_version=versions,
    tags=st.lists(tags, max_size=3).map(tuple),
    dist_info=st.none() | info,
    version_modules=st.lists(st.builds(VersionModule, path=paths, version=versions), max_size=2).map(tuple),
    path_files=st.lists(st.builds(lambda a, b: f"{a}: {b}", paths, anything) | anything, max_size=2).map(tuple),
    members=st.lists(members, max_size=3, unique_by=lambda member: member.path).map(tuple),
    problems=st.lists(st.builds(Problem), max_size=2).map(tuple),
)
contexts = st.one_of(
    st.builds(
        Context,
        matrix=st.just(matrix()),
        target=st.sampled_from(sorted(MATRIX["targets"])),
        profile=st.sampled_from(Profile),
        require=st.none() | st.sampled_from((Code.NATIVE, Code.JIT, Code.HOST)),
        bare=st.none(),
    ),
    st.builds(Context, bare=st.just(BareTarget("aarch64", ComputeCapability(12, 1)))),
)


@settings(max_examples=300, deadline=None)
@given(facts, contexts)
def test_judging_ends_with_a_report_whatever_the_facts(wheel: WheelFacts, context: Context) -> None:
    report = judge(wheel, context)
    assert not [finding for finding in report.findings if finding.found.startswith("the check itself failed")]
    assert from_json(to_json(report)) == report
    for row in report.coverage:
        assert row.native == row.exact + row.same_major + row.family


@settings(max_examples=100, deadline=None)
@given(facts.filter(lambda wheel: bool(wheel.problems)), contexts)
def test_a_problem_is_never_a_pass(wheel: WheelFacts, context: Context) -> None:
    assert judge(wheel, context).verdict is not Verdict.QUALIFIED


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Context)])
def test_a_context_is_frozen(field: str) -> None:
    context: Any = Context(matrix(), HOPPER)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(context, field, None)
