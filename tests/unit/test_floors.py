"""Symbol versions against auditwheel's policies: the data, tags, promises, floors."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from qualify import floors
from qualify.facts import Elf, WheelFacts
from qualify.floors import Need, exceeds, parse, policies
from tests.support.elf import host_elf
from tests.unit.judging_support import member, wheel
from tools import refresh_manylinux

ROOT = Path(__file__).parents[2]
MACHINES = ("x86_64", "aarch64", "i686", "ppc64le", "s390x", "armv7l", "riscv64", "loongarch64")


def elf(machine: str = "x86_64", **options: object) -> Elf:
    """The facts of one library."""
    facts = wheel(files={"axpy/lib.so": host_elf(machine, **options)})  # type: ignore[arg-type]
    return next(found for member in facts.members if member.path == "axpy/lib.so" and (found := member.elf))


def needing(*versions: str, library: str = "libc.so.6", tag: str = "cp311-abi3-linux_x86_64") -> WheelFacts:
    """A wheel with one extension that needs these versions."""
    return wheel({"axpy/_C": member(version_needs={library: versions})}, tag=tag)


def test_the_data_are_those_of_the_installed_auditwheel() -> None:
    version, found = refresh_manylinux.installed()
    written = json.loads(refresh_manylinux.TARGET.read_text(encoding="utf-8"))
    assert written["policies"] == found, f"auditwheel {version} has other policies: nox -s refresh"


def test_what_a_refresh_writes_is_what_stands_there() -> None:
    written = refresh_manylinux.TARGET.read_text(encoding="utf-8")
    data = json.loads(written)
    assert refresh_manylinux.render(data["auditwheel"], data["policies"]) == written
    assert floors.data_version() == data["auditwheel"]


def test_a_policy_with_a_key_that_nobody_has_read_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = [{"name": "manylinux_2_99", "priority": 1, "lib_greylist": []}]
    (tmp_path / "manylinux-policy.json").write_text(json.dumps(other), encoding="utf-8")
    monkeypatch.setattr(refresh_manylinux.resources, "files", lambda _: tmp_path)
    with pytest.raises(SystemExit, match="lib_greylist"):
        refresh_manylinux.installed()


def test_a_missing_auditwheel_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> Path:
        raise ModuleNotFoundError("No module named 'auditwheel'")

    monkeypatch.setattr(refresh_manylinux.resources, "files", nothing)
    with pytest.raises(SystemExit, match="install the group `tests`"):
        refresh_manylinux.installed()


@pytest.mark.parametrize("machine", MACHINES)
def test_each_policy_allows_what_the_older_one_does(machine: str) -> None:
    known = policies(machine)
    assert known == tuple(sorted(known, key=lambda policy: policy.glibc))
    assert len({policy.glibc for policy in known}) == len(known)
    for older, newer in itertools.pairwise(known):
        assert older.libraries <= newer.libraries
        for family, texts in older.versions.items():
            assert texts <= newer.versions[family], (machine, newer.name, family)
    assert all(set(floors.FAMILIES) <= set(policy.versions) for policy in known)


def test_a_machine_that_nobody_knows_has_no_policy() -> None:
    assert policies("m68k") == ()
    assert floors.symbol_policy(needing("GLIBC_2.28"), "m68k") is None
    assert floors.true_tag(needing("GLIBC_2.28"), "m68k") == "linux_m68k"
    assert floors.policy_for_tag("manylinux_2_28_m68k") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("2.28", (2, 28)), ("14.0.0", (14,)), ("14.0", (14,)), ("3.4.10", (3, 4, 10)), ("0", (0,)), ("2.2.5", (2, 2, 5))],
)
def test_a_version_is_its_numbers_without_zeros_at_the_end(text: str, value: tuple[int, ...]) -> None:
    assert parse(text) == floors.number(text) == value


@pytest.mark.parametrize(
    "text", ["", "PRIVATE", "2.", ".2", "2..3", "1" * 7, "2.28-beta", "1.1.1.1.1.1.1.1.1", "\uff12.\uff11"]
)
def test_a_version_that_is_no_number(text: str) -> None:
    assert floors.number(text) is None


@pytest.mark.parametrize(
    ("tag", "glibc", "machine", "policy"),
    [
        ("manylinux_2_28_x86_64", (2, 28), "x86_64", "manylinux_2_28"),
        ("manylinux1_i686", (2, 5), "i686", "manylinux_2_5"),
        ("manylinux2010_x86_64", (2, 12), "x86_64", "manylinux_2_12"),
        ("manylinux2014_aarch64", (2, 17), "aarch64", "manylinux_2_17"),
        ("manylinux_2_33_x86_64", (2, 33), "x86_64", "manylinux_2_31"),
        ("manylinux_2_5_aarch64", (2, 5), "aarch64", "manylinux_2_17"),
        ("manylinux_9_9_x86_64", (9, 9), "x86_64", policies("x86_64")[-1].name),
    ],
)
def test_a_tag_promises_a_policy(tag: str, glibc: tuple[int, ...], machine: str, policy: str) -> None:
    assert floors.tag_glibc(tag) == glibc
    assert floors.tag_machine(tag) == machine
    found = floors.policy_for_tag(tag)
    assert found is not None
    assert found.name == policy


@pytest.mark.parametrize(
    "tag", ["any", "linux_x86_64", "musllinux_1_2_x86_64", "macosx_11_0_arm64", "manylinux_2_x86_64"]
)
def test_a_tag_of_another_kind_promises_nothing(tag: str) -> None:
    assert floors.tag_glibc(tag) is None
    assert floors.tag_machine(tag) == ""
    assert floors.policy_for_tag(tag) is None


def test_of_a_set_the_oldest_tag_of_the_machine_is_the_promise() -> None:
    tags = ["manylinux_2_28_x86_64", "manylinux_2_12_aarch64", "manylinux2014_x86_64", "linux_x86_64"]
    assert floors.promised(tags, "x86_64") == "manylinux2014_x86_64"
    assert floors.promised(tags, "aarch64") == "manylinux_2_12_aarch64"
    assert floors.promised(tags, "riscv64") == ""


@pytest.mark.parametrize(
    ("family", "text", "ceiling", "machine", "answer"),
    [
        ("GLIBC", "2.28", "2.28", "x86_64", False),
        ("GLIBC", "2.29", "2.28", "x86_64", True),
        ("GLIBC", "2.4", "2.28", "x86_64", False),
        ("GCC", "14.0.0", "14.0", "x86_64", False),
        ("GLIBC", "ABI_DT_RELR", "2.35", "x86_64", True),
        ("GLIBC", "ABI_DT_RELR", "2.36", "x86_64", False),
        ("CXXABI", "FLOAT128", "1.3.7", "x86_64", True),
        ("CXXABI", "FLOAT128", "1.3.10", "x86_64", False),
        ("CXXABI", "FLOAT128", "1.3.9", "x86_64", None),  # between the policy that has it and the one before
        ("CXXABI", "TM_1", "1.3.5", "aarch64", None),  # the oldest policy has it: nothing says since when
        ("GLIBC", "PRIVATE", "2.41", "x86_64", None),
    ],
)
def test_a_need_is_held_against_a_ceiling(
    family: str, text: str, ceiling: str, machine: str, answer: bool | None
) -> None:
    assert exceeds(Need("", family, text), parse(ceiling), machine) is answer


@pytest.mark.parametrize(
    ("library", "version", "policy"),
    [
        ("libc.so.6", "GLIBC_2.5", "manylinux_2_5"),
        ("libc.so.6", "GLIBC_2.34", "manylinux_2_34"),
        ("libc.so.6", "GLIBC_ABI_DT_RELR", "manylinux_2_36"),
        ("libstdc++.so.6", "GLIBCXX_3.4.21", "manylinux_2_24"),
        ("libstdc++.so.6", "CXXABI_1.3.13", "manylinux_2_34"),
        ("libgcc_s.so.1", "GCC_7.0.0", "manylinux_2_27"),
        ("libz.so.1", "ZLIB_1.2.9", "manylinux_2_27"),
        ("ld-linux-x86-64.so.2", "GLIBC_2.35", "manylinux_2_35"),  # auditwheel leaves the loader out
        ("libmine.so.1", "GLIBCXX_9.9", "manylinux_2_5"),
        ("libcudart.so.13", "libcudart.so.13", "manylinux_2_5"),
    ],
)
def test_the_true_tag_is_the_oldest_policy_that_has_every_version(library: str, version: str, policy: str) -> None:
    assert floors.true_tag(needing(version, library=library), "x86_64") == f"{policy}_x86_64"


def test_no_tag_is_true_of_versions_that_no_policy_has() -> None:
    for version in ("GLIBC_2.99", "GLIBC_PRIVATE"):
        assert floors.true_tag(needing(version), "x86_64") == "linux_x86_64"


def test_binaries_of_another_machine_do_not_count() -> None:
    facts = wheel(files={"axpy/arm.so": host_elf("aarch64", version_needs={"libc.so.6": ["GLIBC_2.38"]})})
    assert floors.true_tag(facts, "x86_64") == "manylinux_2_28_x86_64"
    assert floors.true_tag(facts, "aarch64") == "manylinux_2_38_aarch64"
    assert floors.symbol_policy(facts, "riscv64") is None


@pytest.mark.parametrize(
    ("library", "versions", "tag", "missing"),
    [
        ("libc.so.6", ["GLIBC_2.17", "GLIBC_2.18"], "manylinux2014_x86_64", ["GLIBC_2.18"]),
        ("libc.so.6", ["GLIBC_2.18"], "manylinux_2_18_x86_64", []),
        ("libc.so.6", ["GLIBC_ABI_DT_RELR"], "manylinux_2_35_x86_64", ["GLIBC_ABI_DT_RELR"]),
        ("libc.so.6", ["GLIBC_PRIVATE"], "manylinux_2_17_x86_64", []),
        ("libstdc++.so.6", ["GLIBCXX_3.4.19", "GLIBCXX_3.4.20"], "manylinux2014_x86_64", ["GLIBCXX_3.4.20"]),
        ("libstdc++.so.6", ["GLIBCXX_3.4.29"], "manylinux_2_33_x86_64", ["GLIBCXX_3.4.29"]),
        ("libstdc++.so.6", ["GLIBCXX_9.9"], "manylinux_9_9_x86_64", []),
        ("libc.so.6", ["GLIBC_9.8"], "manylinux_9_9_x86_64", []),
        ("libc.so.6", ["GLIBC_9.9.1"], "manylinux_9_9_x86_64", ["GLIBC_9.9.1"]),
        ("libz.so.1", ["ZLIB_1.2.9"], "manylinux2014_x86_64", ["ZLIB_1.2.9"]),
    ],
)
def test_what_a_tag_does_not_promise(library: str, versions: list[str], tag: str, missing: list[str]) -> None:
    found = floors.uncovered(elf(version_needs={library: versions}), tag)
    assert [need.version for need in found] == missing


def test_a_tag_newer_than_every_policy_leaves_open_what_none_of_them_has() -> None:
    versions = {"libc.so.6": ["GLIBC_9.8"], "libstdc++.so.6": ["GLIBCXX_3.4.30", "GLIBCXX_9.9"]}
    binary = elf(version_needs=versions)
    assert [need.version for need in floors.beyond(binary, "manylinux_9_9_x86_64")] == ["GLIBCXX_9.9"]
    assert floors.beyond(binary, "manylinux_2_28_x86_64") == ()
    assert floors.beyond(binary, "linux_x86_64") == ()


def test_floors_name_the_symbols_and_the_member_that_set_them() -> None:
    new = host_elf(
        version_needs={"libc.so.6": ["GLIBC_2.5", "GLIBC_2.34"], "libstdc++.so.6": ["GLIBCXX_3.4.9", "CXXABI_1.3"]},
        undefined=[
            "malloc@GLIBC_2.5",
            "pthread_create@GLIBC_2.34",
            "dlopen@GLIBC_2.34",
            "__gxx_personality_v0@CXXABI_1.3",
        ],
    )
    old = host_elf(version_needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_PRIVATE"], "libgcc_s.so.1": ["GCC_3.0"]})
    facts = wheel(files={"axpy/old.so": old, "axpy/new.so": new})
    members = [member for member in facts.members if member.path in ("axpy/old.so", "axpy/new.so")]
    assert dict(floors.floors(members)) == {
        "GLIBC": floors.Floor("GLIBC_2.34", "axpy/new.so", ("dlopen", "pthread_create")),
        "GLIBCXX": floors.Floor("GLIBCXX_3.4.9", "axpy/new.so", ()),
        "CXXABI": floors.Floor("CXXABI_1.3", "axpy/new.so", ("__gxx_personality_v0",)),
        "GCC": floors.Floor("GCC_3.0", "axpy/old.so", ()),
    }
    assert dict(floors.floors([])) == {}


def test_machines_are_named_as_tags_name_them() -> None:
    names = {
        machine: floors.machine_of_elf(elf(machine)) for machine in ("x86_64", "aarch64", "i386", "arm", "riscv64")
    }
    assert names == {"x86_64": "x86_64", "aarch64": "aarch64", "i386": "i686", "arm": "armv7l", "riscv64": "riscv64"}
    assert floors.machine_of_elf(elf("ppc64")) == "ppc64"


def test_the_answers_do_not_depend_on_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = needing("GLIBC_2.34")
    before = floors.true_tag(facts, "x86_64")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr("platform.libc_ver", lambda *_: ("glibc", "2.17"))
    policies.cache_clear()
    assert floors.true_tag(facts, "x86_64") == before == "manylinux_2_34_x86_64"
