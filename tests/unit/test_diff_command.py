"""``qualify diff``: exit codes, what people read, and JSON that keeps to its schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from qualify.cli import main
from qualify.diffing.json import NAME, schema_text
from qualify.errors import ExitCode
from tests.support.wheel import write_wheel

ROOT = Path(__file__).parents[2]
SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / NAME


def made(folder: Path, kernels: list[str], **options: Any) -> Path:
    folder.mkdir()
    extensions = options.pop("extensions", {"axpy/_C": {"sm_90": kernels}, "axpy/_host": {}})
    return write_wheel(folder, extensions=extensions, **options)


@pytest.fixture
def wheels(tmp_path: Path) -> tuple[Path, Path]:
    """A candidate that lost a kernel and gained one, and its control."""
    return made(tmp_path / "now", ["kept", "new"]), made(tmp_path / "before", ["kept", "old"], version="0.0.9")


def test_lost_and_gained_are_said_apart(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *map(str, wheels)]) == ExitCode.REJECTED
    out = capsys.readouterr().out
    assert "kernels: 0 of 1 pairs of extension and architecture that both hold are equal" in out
    assert "    lost    1 kernel\n      old\n    gained  1 kernel\n      new\n" in out
    assert "changed Version: 0.0.9 -> 0.1.0" in out
    assert out.endswith("something is lost\n")


def test_nothing_lost(tmp_path: Path, wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    more = made(tmp_path / "more", ["kept", "old", "new"])
    assert main(["diff", str(more), str(wheels[1])]) == ExitCode.OK
    assert capsys.readouterr().out.endswith("nothing is lost\n")
    assert main(["diff", str(wheels[0]), str(wheels[1]), "--architecture", "sm_80"]) == ExitCode.OK


def test_what_a_target_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fat = made(tmp_path / "fat", [], extensions={"axpy/_C": {"sm_90": ["k"], "sm_80": ["k"], "sm_100": ["b"]}})
    one = made(tmp_path / "one", [], extensions={"axpy/_C": {"sm_90": ["k", "more"]}})
    assert main(["diff", str(one), str(fat)]) == ExitCode.REJECTED
    capsys.readouterr()
    assert main(["diff", str(one), str(fat), "--cc", "9.0"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "what runs on sm90 (compute capability 9.0)" in out
    assert "axpy/_C: 1 kernel run from the control (1 natively), 2 from the candidate (2)" in out
    assert main(["diff", str(one), str(fat), "--cc", "10.0"]) == ExitCode.REJECTED


def test_a_target_of_the_matrix(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    matrix = Path(__file__).parents[2] / "matrix.yaml"
    arguments = ["diff", *map(str, wheels), "--matrix", str(matrix), "--target"]
    assert main([*arguments, "x86_64-sm90"]) == ExitCode.REJECTED
    assert "driver of CUDA 13.0" in capsys.readouterr().out
    assert main([*arguments, "x86_64-sm91"]) == ExitCode.USAGE
    assert "did you mean x86_64-sm90?" in capsys.readouterr().err


def test_json_keeps_to_its_schema(
    tmp_path: Path, wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), "run `nox -s generate`"
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for more in ([], ["--cc", "9.0"]):
        assert main(["diff", *map(str, wheels), "--json", *more]) == ExitCode.REJECTED
        document = json.loads(capsys.readouterr().out)
        jsonschema.validate(document, schema)
        assert document["loses"]
        assert document["kernels"][0]["lost"] == ["old"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "unknown": 1}, schema)


def test_long_lists_are_cut_unless_all_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = made(tmp_path / "before", [f"kernel_{number:02}" for number in range(20)])
    now = made(tmp_path / "now", ["kernel_00"])
    assert main(["diff", str(now), str(before)]) == ExitCode.REJECTED
    out = capsys.readouterr().out
    assert "and 14 more: --all lists them, and --json has them" in out
    assert "kernel_19" not in out
    assert main(["diff", str(now), str(before), "--all"]) == ExitCode.REJECTED
    assert "kernel_19" in capsys.readouterr().out


def test_long_names_are_cut_unless_all_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "_Z" + "k" * 400
    before, now = made(tmp_path / "before", ["k", long]), made(tmp_path / "now", ["k"])
    assert main(["diff", str(now), str(before)]) == ExitCode.REJECTED
    out = capsys.readouterr().out
    assert long[:159] + "…\n" in out
    assert long not in out
    assert main(["diff", str(now), str(before), "--all"]) == ExitCode.REJECTED
    assert long in capsys.readouterr().out


def test_what_a_terminal_would_act_on_is_shown_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = made(tmp_path / "before", ["k", "\x1b[2Jgone"])
    assert main(["diff", str(made(tmp_path / "now", ["k"])), str(before)]) == ExitCode.REJECTED
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2Jgone" in out


def test_what_could_not_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = made(tmp_path / "whole", ["k"])
    broken = made(tmp_path / "broken", [], extensions={"axpy/_C": b"\x7fELF\2\1\1 cut short", "axpy/_host": {}})
    assert main(["diff", str(whole), str(broken)]) == ExitCode.UNVERIFIED
    assert capsys.readouterr().out.endswith("something could not be compared\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["vllm==0.33.0", "vllm==0.32.0"], "nothing says for which machine"),
        (["gone.whl", "gone.whl"], "no such file"),
        (["{0}", "{1}", "--cc", "nine"], "--cc"),
        (["{0}", "{1}", "--target", "x86_64-sm90", "--cc", "9.0"], "--machine and --cc"),
    ],
)
def test_misuse(wheels: tuple[Path, Path], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *(argument.format(*wheels) for argument in arguments)]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_the_page_shows_what_the_command_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = {"axpy/_C": {"sm_80": ["axpy"], "sm_90": ["axpy", "scale"], "sm_100": ["axpy"]}, "axpy/_host": {}}
    before = made(
        tmp_path / "before", [], extensions={**code, "axpy/_extra": {"sm_90": ["extra"]}}, requires=["torch==2.13.0"]
    )
    now = made(
        tmp_path / "now",
        [],
        extensions={"axpy/_C": [{"sm_90": ["axpy", "scale_v2"]}, {"compute_80": ["fallback"]}], "axpy/_host": {}},
        requires=["torch==2.14.0"],
        version="0.2.0",
    )
    assert main(["diff", str(now), str(before), "--cc", "9.0"]) == ExitCode.REJECTED
    shown = re.search(r"```text\n(.*?)```", (ROOT / "docs" / "diff.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown
    # Digests and sizes of the file hang on the zlib that packs it.
    assert stable(capsys.readouterr().out) == stable(shown[1])


def stable(text: str) -> str:
    return re.sub(r"[0-9a-f]{12}  [0-9,]+ bytes|[0-9,]+ bytes -> [0-9,]+ bytes \(.*?\)", "…", text)
