"""Facts of header depth: what headers say is as at kernel depth, no payload is inflated, and nothing judges them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qualify.decompress import Libraries
from qualify.errors import UsageError
from qualify.facts import Depth, Entry, EntryKind, ProblemKind, WheelFacts
from qualify.factsjson import from_json, to_json
from qualify.judging import judge
from qualify.opening import read_wheel
from tests.support import fatbin
from tests.support.cubin import cubin
from tests.support.elf import host_elf
from tests.support.wheel import extension, write_wheel
from tests.unit.judging_support import context


def _as_headers(facts: WheelFacts) -> WheelFacts:
    """Facts of kernel depth with all that only a payload tells left out."""

    def shallow(entry: Entry) -> Entry:
        options = entry.options if entry.kind is EntryKind.PTX else ""
        return replace(entry, toolkit="", options=options, kernels=(), functions=(), readable=False)

    members = tuple(
        replace(
            member,
            symbols=(),
            containers=tuple(
                replace(container, entries=tuple(map(shallow, container.entries))) for container in member.containers
            ),
        )
        for member in facts.members
    )
    return replace(facts, depth=Depth.HEADERS, members=members)


@pytest.fixture
def every_kind(tmp_path: Path) -> Path:
    """A wheel with every kind of entry, compression and place that device code has."""
    blobs = [
        fatbin.fatbin(
            *(
                fatbin.entry(architecture, ["a", "b"], compression=compression)
                for compression in ("none", "lz4", "zstd")
            ),
            replace(fatbin.entry("compute_80", ["c"]), options="-O2", debug=True),
            fatbin.entry("lto_90", []),
        )
        for architecture in ("sm_90a", "sm_120f", "sm_80")
    ]
    sections = {".nv_fatbin": fatbin.containers(*blobs), "__nv_relfatbin": fatbin.device_code({"sm_75": ["d"]})}
    return write_wheel(
        tmp_path,
        extensions={"axpy/_C": host_elf(defined=("PyInit__C",), sections=sections), "axpy/_host": {}},
        files={
            "axpy/k.cubin": cubin(121, ["k"], suffix="f"),
            "axpy/k.fatbin": blobs[0],
            "axpy/old.cubin": cubin(80, ["k"], abi=7, notes=False),
        },
    )


def test_what_headers_say_is_the_same(every_kind: Path) -> None:
    whole, headers = read_wheel(every_kind), read_wheel(every_kind, depth=Depth.HEADERS)
    assert whole.problems == headers.problems == ()
    assert headers == _as_headers(whole)
    assert {entry.architecture for entry in _entries(headers)} == {
        *("sm_75", "sm_80", "sm_90a", "sm_120f", "sm_121f", "compute_80", "compute_90")
    }
    assert from_json(to_json(headers)) == headers


def test_no_payload_is_inflated(every_kind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Libraries, data: bytes | memoryview, size: int) -> bytes:
        raise AssertionError("a payload was inflated")

    monkeypatch.setattr(Libraries, "zstd", never)
    monkeypatch.setattr(Libraries, "lz4", never)
    assert read_wheel(every_kind, depth=Depth.HEADERS).problems == ()


def test_a_damaged_payload_is_seen_at_kernel_depth_alone(tmp_path: Path) -> None:
    bad = replace(fatbin.entry("sm_90", ["k"]), sm=80)
    path = write_wheel(
        tmp_path, extensions={"axpy/_C": extension(host_elf(sections={".nv_fatbin": fatbin.fatbin(bad)}))}
    )
    assert [problem.kind for problem in read_wheel(path).problems] == [ProblemKind.MALFORMED]
    assert read_wheel(path, depth=Depth.HEADERS).problems == ()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"kind": 64}, ProblemKind.UNREADABLE),
        ({"overrides": {"sm": 0}}, ProblemKind.MALFORMED),
        ({"overrides": {"flags": 0xA011}}, ProblemKind.UNREADABLE),
        ({"overrides": {"flags": 0x8010}}, ProblemKind.UNREADABLE),
    ],
)
def test_what_a_header_itself_says_wrong_is_seen_at_both(
    tmp_path: Path, changes: dict[str, object], kind: ProblemKind
) -> None:
    bad = fatbin.fatbin(replace(fatbin.entry("sm_90", ["k"]), **changes))  # type: ignore[arg-type]
    path = write_wheel(tmp_path, extensions={"axpy/_C": host_elf(sections={".nv_fatbin": bad})})
    for depth in Depth:
        assert [problem.kind for problem in read_wheel(path, depth=depth).problems] == [kind]


def test_nothing_judges_them(tmp_path: Path) -> None:
    path = write_wheel(tmp_path)
    headers, whole = read_wheel(path, depth=Depth.HEADERS), read_wheel(path)
    with pytest.raises(UsageError, match="depth of headers"):
        judge(headers, context())
    with pytest.raises(UsageError, match="depth of headers"):
        judge(whole, replace(context(), control=headers))
    assert judge(whole, context()).coverage


def _entries(facts: WheelFacts) -> list[Entry]:
    return [entry for member in facts.members for container in member.containers for entry in container.entries]
