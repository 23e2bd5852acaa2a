"""The bill of materials: valid CycloneDX, the same for the same plan, and in the wheel and its RECORD."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from builders.crates import Crate
from builders.plan import PatchPlan, Plan
from builders.planning import make_plan
from builders.receipts.sbom import FILE, Ingredients, make_sbom
from builders.relabel import relabel
from qualify.opening import read_wheel
from tests.support.wheel import write_wheel
from tests.unit.builders_support import sdist_matrix

MADE_OF = Ingredients(
    version="1.0+cu130",
    crates=(
        Crate("serde", "1.0.0", "a" * 64, "registry+https://example.org/index"),
        Crate("odd", "0.3.0", "", "", "https://example.org/odd.git", "b" * 40),
    ),
    distributions={"setuptools": "80.9.0"},
    hashes={"setuptools": "c" * 64},
    bundled=("tiny.libs/libnuma-1234abcd.so.1",),
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    made = make_plan(sdist_matrix(tmp_path), "x86_64-sm90")
    return replace(made, patches=(PatchPlan("fix.patch", "d" * 64),))


def test_it_is_valid_and_names_what_went_in(plan: Plan) -> None:
    text = make_sbom(plan, MADE_OF).decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    names = {part["name"]: part.get("version") for part in document["components"]}
    assert names["serde"] == "1.0.0"
    assert names["nvidia-cuda-nvcc"] == "13.0.88"
    assert names["thing"] == "v1.2"
    assert "libnuma-1234abcd.so.1" in names
    root = document["metadata"]["component"]
    assert (root["name"], root["version"]) == ("tiny", "1.0+cu130")
    assert root["pedigree"]["commits"][0]["uid"] == "4ba787ec9"
    assert "fix.patch" in root["pedigree"]["notes"]
    tools = {tool["name"]: tool for tool in document["metadata"]["tools"]["components"]}
    assert tools["setuptools"]["hashes"] == [{"alg": "SHA-256", "content": "c" * 64}]


def test_the_same_plan_gives_the_same_bytes(plan: Plan) -> None:
    assert make_sbom(plan, MADE_OF) == make_sbom(plan, MADE_OF)
    assert make_sbom(replace(plan, arch_list="9.0a", architectures=("9.0a",)), MADE_OF) != make_sbom(plan, MADE_OF)
    assert b"timestamp" not in make_sbom(plan, MADE_OF)


def test_no_order_of_sets_enters_it(tmp_path: Path, plan: Plan) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.unit.test_sbom import MADE_OF; "
        "from builders.receipts.sbom import make_sbom; from builders.planning import make_plan; "
        "from qualify.matrix import load; loaded = load(Path(sys.argv[1])); "
        "sys.stdout.buffer.write(make_sbom(make_plan(loaded, 'x86_64-sm90'), MADE_OF))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "matrix.yaml")]
    root = Path(__file__).parents[2]
    texts = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, cwd=root, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["serialNumber"].startswith("urn:uuid:")


def test_a_crate_that_two_locks_name_stands_once(plan: Plan) -> None:
    text = make_sbom(plan, replace(MADE_OF, crates=(*MADE_OF.crates, *MADE_OF.crates))).decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert text == make_sbom(plan, MADE_OF).decode()


def test_it_lies_in_the_wheel_and_in_its_record(plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    made = write_wheel(folder, name="tiny", version="1.0", tag="cp312-cp312-linux_x86_64", commit="g4ba787ec9")
    bill = make_sbom(plan, MADE_OF)
    wheel = relabel(Path(made), "sm90", {FILE: bill})
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"tiny-1.0+sm90.dist-info/{FILE}") == bill
    assert read_wheel(wheel).problems == ()
    again = relabel(wheel, "", {FILE: b"{}\n"})
    assert again == wheel
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"tiny-1.0+sm90.dist-info/{FILE}") == b"{}\n"
        assert archive.namelist().count(f"tiny-1.0+sm90.dist-info/{FILE}") == 1
    assert read_wheel(wheel).problems == ()
