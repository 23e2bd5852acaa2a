"""Facts print as JSON and read back equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qualify.errors import MalformedError
from qualify.facts import EntryKind, WheelFacts
from qualify.factsjson import code_groups, from_json, to_json
from qualify.opening import read_wheel
from tests.support.wheel import ZipMember, make_wheel, wheel_filename, wheel_members, write_wheel, zip_bytes

CODE = [{"sm_90a": ["k1", "k2"], "compute_80": ["k1"], "lto_90": []}, {"sm_90a": ["k2", "k3"], "sm_120f": ["k1"]}]


@pytest.fixture
def facts(tmp_path: Path) -> WheelFacts:
    path = tmp_path / wheel_filename()
    members = wheel_members(extensions={"axpy/_C": CODE, "axpy/_host": {}}, files={"x.pth": "import x\n"})
    path.write_bytes(zip_bytes([*members, ZipMember("../bad", b"x")]))
    return read_wheel(path)


def test_round_trip(facts: WheelFacts) -> None:
    document = json.loads(json.dumps(to_json(facts)))
    assert from_json(document) == facts
    assert facts.problems


def test_the_contract_for_scripts(facts: WheelFacts) -> None:
    document = to_json(facts)
    assert document["version"] == 2
    shown = next(member for member in document["members"] if member["path"] == "axpy/_C.abi3.so")
    assert (shown["kind"], shown["machine"]) == ("extension", "x86_64")
    groups = {(group["kind"], group["architecture"]): group for group in shown["device_code"]}
    assert {key: (group["entries"], group["kernels"]) for key, group in groups.items()} == {
        ("cubin", "sm_90a"): (2, 3),
        ("cubin", "sm_120f"): (1, 1),
        ("ptx", "compute_80"): (1, 1),
        ("lto-ir", "compute_90"): (1, 0),
    }
    data = next(member for member in document["members"] if member["path"].endswith("METADATA"))
    assert (data["kind"], data["machine"], data["device_code"]) == ("data", "", [])


def test_groups_count_functions_apart(facts: WheelFacts) -> None:
    member = next(member for member in facts.members if member.containers)
    group = next(group for group in code_groups(member) if group.kind is EntryKind.PTX)
    assert (group.isas, group.toolkits, group.text_sections, group.unreadable) == (("9.0",), (), 1, 0)


def _with(document: dict[str, Any], path: list[str | int], value: object) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(document))
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["version"], 1),
        (["version"], 3),
        (["version"], "1"),
        (["size"], "10"),
        (["size"], True),
        (["members"], {}),
        (["members", 0], []),
        (["members", 0, "kind"], "unknown"),
        (["members", 0, "surprise"], 1),
        (["tags"], ["a", 1]),
        (["dist_info"], "x"),
        (["surprise"], 1),
        (["problems", 0, "kind"], None),
    ],
)
def test_what_is_no_facts_is_malformed(facts: WheelFacts, path: list[str | int], value: object) -> None:
    with pytest.raises(MalformedError):
        from_json(_with(to_json(facts), path, value))


def test_a_missing_field_is_malformed(facts: WheelFacts) -> None:
    document = to_json(facts)
    del document["sha256"]
    with pytest.raises(MalformedError, match="missing fields: sha256"):
        from_json(document)


def test_a_wheel_without_dist_info_round_trips(tmp_path: Path) -> None:
    path = write_wheel(tmp_path)
    path.write_bytes(zip_bytes([ZipMember("a.py", b"x")]))
    facts = read_wheel(path)
    assert facts.dist_info is None
    assert from_json(to_json(facts)) == facts
    assert make_wheel() != path.read_bytes()
