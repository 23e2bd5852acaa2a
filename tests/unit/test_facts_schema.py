"""The schema of facts: generated, and what in-memory wheels give keeps to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from qualify import factsschema
from qualify.errors import MalformedError
from qualify.facts import Depth
from qualify.factsjson import from_json, to_json
from qualify.opening import read_wheel
from tests.support.cubin import cubin
from tests.support.elf import host_elf
from tests.support.wheel import ZipMember, make_wheel, wheel_filename, wheel_members, zip_bytes

SCHEMA: dict[str, Any] = json.loads(factsschema.schema_text())
VALIDATOR = Draft202012Validator(SCHEMA)
RICH = wheel_members(
    extensions={
        "axpy/_C": [{"sm_90a": ["k1"], "compute_80": ["k1"], "lto_90": []}, {"sm_120f": ["k2"]}],
        "axpy/_host": host_elf(undefined=["memcpy"], weak=["__gmon_start__"], defined=["PyInit__host"]),
    },
    files={"x.pth": "import x\n", "axpy/k.cubin": cubin(90), "axpy/broken.so": b"\x7fELF"},
)


def facts_of(folder: Path, data: bytes, **options: Any) -> dict[str, Any]:
    path = folder / wheel_filename()
    path.write_bytes(data)
    document: dict[str, Any] = json.loads(json.dumps(to_json(read_wheel(path, **options))))
    return document


def test_the_file_is_the_generated_one(tmp_path: Path) -> None:
    stands = Path(__file__).parents[2] / "docs" / "schema" / factsschema.NAME
    assert stands.read_text(encoding="utf-8") == factsschema.schema_text(), "run: nox -s generate"
    factsschema.write(tmp_path / "new")
    assert (tmp_path / "new" / factsschema.NAME).read_text(encoding="utf-8") == factsschema.schema_text()


def test_the_schema_is_one_and_closed() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    objects = [SCHEMA, *SCHEMA["$defs"].values()]
    assert all(each["additionalProperties"] is False for each in objects)
    assert all(sorted(each["required"]) == sorted(each["properties"]) for each in objects)
    assert SCHEMA["$defs"]["Import"]["properties"]["weak"]["description"].startswith("STB_WEAK")


@pytest.mark.parametrize("depth", list(Depth))
def test_facts_of_wheels_keep_to_it(tmp_path: Path, depth: Depth) -> None:
    for data in (
        make_wheel(),
        zip_bytes(RICH),
        zip_bytes([*RICH, ZipMember("../x"), ZipMember("bz2", method=12, raw=b"x")]),
        zip_bytes([ZipMember("a.py")]),
        zip_bytes([]),
    ):
        VALIDATOR.validate(facts_of(tmp_path, data, depth=depth))


def test_what_it_refuses_reading_back_refuses_too(tmp_path: Path) -> None:
    good = facts_of(tmp_path, zip_bytes(RICH))
    assert from_json(good)
    member = next(index for index, each in enumerate(good["members"]) if each["elf"] and each["containers"])
    for path, value in (
        (("version",), 1),
        (("members", member, "kind"), "strange"),
        (("members", member, "elf", "imports"), [["memcpy"]]),
        (("members", member, "elf", "executable_stack"), 1),
        (("members", member, "surprise"), 1),
        (("dist_info",), []),
        (("depth",), "deep"),
    ):
        broken = json.loads(json.dumps(good))
        place = broken
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        assert list(VALIDATOR.iter_errors(broken)), path
        with pytest.raises(MalformedError):
            from_json(broken)
