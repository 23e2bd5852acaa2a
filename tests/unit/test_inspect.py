"""``qualify inspect`` as a person and as a script sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qualify.cli import main
from qualify.factsjson import from_json
from qualify.opening import read_wheel
from tests.support.wheel import replaced, wheel_filename, wheel_members, write_wheel, zip_bytes


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_wheel(tmp_path, extensions={"axpy/_C": {"sm_120f": ["a", "b"], "compute_80": ["a"]}, "axpy/_h": {}})
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = [line.split("│") for line in shown.out.splitlines() if "│" in line]
    cells = [[cell.strip() for cell in line[1:-1]] for line in lines]
    assert ["axpy/_C.abi3.so", "extension", "x86_64", "sm_120f", "1", "2"] in cells
    assert ["", "", "", "ptx compute_80", "1", "1"] in cells
    assert ["axpy/_h.abi3.so", "extension", "x86_64", "none", "", ""] in cells


def test_json_alone_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_wheel(tmp_path)
    assert main(["inspect", str(path), "--json"]) == 0
    assert from_json(json.loads(capsys.readouterr().out)) == read_wheel(path)


@pytest.mark.parametrize(
    ("changes", "code", "kind"), [({"raw": b"\xff" * 60}, 1, "malformed"), ({"method": 12}, 3, "unreadable")]
)
def test_problems_go_to_stderr_and_into_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], code: int, kind: str
) -> None:
    path = tmp_path / wheel_filename()
    path.write_bytes(zip_bytes(replaced(wheel_members(), "axpy/_C.abi3.so", **changes)))
    assert main(["inspect", str(path), "--json"]) == code
    shown = capsys.readouterr()
    assert shown.err.startswith(f"{kind}: axpy/_C.abi3.so: ")
    assert json.loads(shown.out)["problems"][0]["kind"] == kind


def test_one_line_for_what_cannot_be_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / wheel_filename())]) == 2
    assert "no such file" in capsys.readouterr().err
    bad = tmp_path / wheel_filename()
    bad.write_bytes(b"no wheel")
    assert main(["inspect", str(bad)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "no end of central directory" in shown.err
    assert "Traceback" not in shown.err
