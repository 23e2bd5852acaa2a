"""``qualify inspect`` as a person and as a script sees it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from qualify.cli import main
from qualify.facts import Depth
from qualify.factsjson import from_json
from qualify.opening import read_wheel
from tests.support.cubin import cubin
from tests.support.elf import host_elf
from tests.support.fatbin import entry, fatbin
from tests.support.wheel import ZipMember, extension, replaced, wheel_filename, wheel_members, write_wheel, zip_bytes


def _shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines of a run that has nothing to complain of, single blanks between their words."""
    assert main(["inspect", *arguments]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert [line for line in shown.out.splitlines() if line != line.rstrip()] == []
    return [" ".join(line.split()) for line in shown.out.splitlines()]


def _wheel(tmp_path: Path) -> Path:
    debug = replace(entry("sm_120f", ["a", "b"], options="-g"), debug=True)
    code = fatbin(
        debug,
        entry("sm_120f", ["a"], compression="lz4"),
        replace(entry("compute_80", ["a"]), options="-O2"),
        entry("sm_90", ["c"], notes=False, abi=7),
        entry("lto_90", []),
    )
    library = host_elf(sections={".nv_fatbin": code}, version_needs={"libc.so.6": ["GLIBC_2.17"]})
    return write_wheel(tmp_path, extensions={"axpy/_C": library, "axpy/_h": {}}, files={"axpy/k.cubin": cubin(90)})


def test_what_a_person_sees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _wheel(tmp_path)
    lines = _shown(capsys, str(path))
    assert lines[0] == path.name
    assert f"{path.stat().st_size:,} bytes, sha256 {read_wheel(path).sha256}" in lines
    at = lines.index("axpy/_C.abi3.so")
    assert lines[at + 1].startswith("extension, x86_64, ")
    assert lines[at + 1].endswith("; needs GLIBC_2.17")
    assert lines[at + 2 : at + 4] == [
        "1 container in .nv_fatbin",
        "device code entries kernels compression stored inflated made by",
    ]
    rows = [re.sub(r" [\d.]+ kB", "", line) for line in lines[at + 4 : at + 8]]
    assert rows == [
        "sm_90 1 1 zstd toolkit <13",
        "sm_120f 2 2 lz4, zstd toolkit 13.0 1 debug",
        "lto-ir compute_90 1 zstd",
        "ptx compute_80 1 1 zstd PTX 9.0",
    ]
    at = lines.index("axpy/_h.abi3.so")
    assert lines[at + 2] == "no device code"
    at = lines.index("axpy/k.cubin")
    assert lines[at + 1].startswith("cubin, ")
    assert lines[lines.index("compiled with") + 1 :] == [
        "2 cubin -arch (its own) -m 64",
        "1 cubin -arch (its own) -m 64 -g",
        "1 ptx -O2",
    ]


def test_at_header_depth_no_kernel_is_claimed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = _shown(capsys, str(_wheel(tmp_path)), "--depth", "headers")
    assert "read to the depth of headers: no payload was looked at, and no kernel is known" in lines
    rows = [re.sub(r" [\d.]+ kB", "", line) for line in lines if line.startswith("sm_120f")]
    assert rows == ["sm_120f 2 lz4, zstd 1 debug"]


def test_a_wheel_without_compiled_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no compiled member" in _shown(capsys, str(write_wheel(tmp_path, extensions={})))


def test_names_from_a_wheel_do_not_act_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members = [*wheel_members(), ZipMember("axpy/\u202ex.so", extension({}), flags=0x800)]
    path = tmp_path / wheel_filename()
    path.write_bytes(zip_bytes(members))
    main(["inspect", str(path)])
    assert "axpy/\\u202ex.so" in capsys.readouterr().out


def test_json_alone_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_wheel(tmp_path)
    assert main(["inspect", str(path), "--json"]) == 0
    assert from_json(json.loads(capsys.readouterr().out)) == read_wheel(path)
    assert main(["inspect", str(path), "--json", "--depth", "headers"]) == 0
    assert from_json(json.loads(capsys.readouterr().out)) == read_wheel(path, depth=Depth.HEADERS)


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
