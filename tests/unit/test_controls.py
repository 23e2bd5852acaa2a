"""A control: where it comes from, what it must be, and that evidence which was held against one needs it again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from qualify import evidence, matrix
from qualify.cli import main
from qualify.controls import Controls, Host
from qualify.errors import ConfigurationError, ExitCode, RefusedError, UnavailableError, UsageError
from qualify.files import sha256_of
from qualify.opening import read_wheel
from tests.support.line import axpy, write_matrix

TARGET = "x86_64-sm90"
BOTH = {"axpy/_C": {"sm_90": ["axpy_kernel", "second"]}, "axpy/_host": {}}


def named(folder: Path, control: str) -> Path:
    """The matrix of these tests, with a control for one target."""
    path = write_matrix(folder)
    text = path.read_text(encoding="utf-8")
    head = f"  {TARGET}:\n"
    assert head in text
    path.write_text(text.replace(head, f"{head}    control: {control}\n", 1), encoding="utf-8")
    return path


def entry(wheel: Path, **more: str) -> str:
    """What the matrix says of a control that is required."""
    said = {"wheel": f"good/{wheel.name}", "sha256": f'"{sha256_of(wheel).sha256}"', "required": "true", **more}
    return "{" + ", ".join(f"{key}: {value}" for key, value in said.items()) + "}"


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The last good wheel, in a folder of its own."""
    return axpy(tmp_path / "good", version="0.0.9", extensions=BOTH)


def check(*arguments: object) -> int:
    return main(["check", *map(str, arguments), "--target", TARGET])


def test_what_was_lost_rejects_where_the_control_is_required(
    tmp_path: Path, before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = named(tmp_path, entry(before))
    fewer = axpy(tmp_path / "now")
    assert check(fewer, "--matrix", path) == ExitCode.REJECTED
    assert "CTL001" in capsys.readouterr().out
    whole = axpy(tmp_path / "whole", extensions=BOTH)
    assert check(whole, "--matrix", path) == ExitCode.OK
    assert before.name in capsys.readouterr().out
    assert check(fewer, "--matrix", path, "--profile", "upstream") == ExitCode.OK
    assert "CTL007" in capsys.readouterr().out


def test_the_command_line_names_another_one(tmp_path: Path, before: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_matrix(tmp_path)
    fewer = axpy(tmp_path / "now")
    assert check(fewer, "--matrix", path, "--control", before) == ExitCode.OK
    assert "1 of 2 kernels that run from the control don't" in capsys.readouterr().out
    assert check(fewer, "--matrix", path, "--control", tmp_path / "none.whl") == ExitCode.USAGE
    assert "no such file" in capsys.readouterr().err
    assert main(["check", str(fewer), "--machine", "x86_64", "--cc", "9.0", "--control", str(before)]) == ExitCode.OK
    assert "CTL007" in capsys.readouterr().out


def test_another_file_than_the_matrix_says_is_refused(
    tmp_path: Path, before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = named(tmp_path, entry(before, sha256=f'"{"0" * 64}"'))
    assert check(axpy(tmp_path / "now"), "--matrix", path) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert f"targets.{TARGET}.control.sha256" in said
    assert sha256_of(before).sha256[:12] in said
    loaded = matrix.load(named(tmp_path, entry(before)))
    before.unlink()
    with pytest.raises(UnavailableError, match="is not there"):
        Controls(loaded).of_target(TARGET)
    assert check(axpy(tmp_path / "now"), "--matrix", loaded.path) == ExitCode.UNAVAILABLE


def test_a_control_that_is_no_archive_is_not_the_candidates_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "axpy-0.0.9-py3-none-any.whl"
    broken.write_bytes(b"no zip")
    assert check(axpy(tmp_path / "now"), "--matrix", write_matrix(tmp_path), "--control", broken) == ExitCode.USAGE
    assert "the control" in capsys.readouterr().err


def test_evidence_needs_the_control_again(tmp_path: Path, before: Path) -> None:
    path = named(tmp_path, entry(before))
    wheel = axpy(tmp_path / "now", extensions=BOTH)
    assert check(wheel, "--matrix", path, "--evidence") == ExitCode.OK
    document = evidence.load(evidence.path_for(wheel, TARGET))
    loaded = matrix.load(path)
    proof = evidence.prove(document, wheel, loaded, controls=Controls(loaded).of_target)
    assert proof.report.policy["control"] == {"filename": before.name, "sha256": sha256_of(before).sha256}
    with pytest.raises(UnavailableError, match="is not at hand"):
        evidence.prove(document, wheel, loaded)
    # Another wheel under the control's name is no proof of what was judged.
    axpy(tmp_path / "good", version="0.0.9", extensions=BOTH, files={"axpy/new.py": ""})
    with pytest.raises(RefusedError, match="has the sha256"):
        evidence.prove(document, wheel, loaded, controls=Controls(loaded).of_target)
    assert document.made <= datetime.now(UTC).isoformat()


def test_evidence_takes_the_matrixs_own_control(
    tmp_path: Path, before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = axpy(tmp_path / "now")
    path = write_matrix(tmp_path)
    assert check(wheel, "--matrix", path, "--control", before, "--evidence") == ExitCode.USAGE
    assert "--control" in capsys.readouterr().err


def test_a_control_is_read_once(tmp_path: Path, before: Path) -> None:
    controls = Controls(None)
    host = Host("x86_64", "3.12")
    assert controls.given(str(before), host) is controls.given(str(before), host)
    assert controls.of_target(TARGET) is None
    with pytest.raises(UsageError, match="no such file"):
        controls.given(str(tmp_path / "x.whl"), host)


def publish(wheel: Path, path: Path, *arguments: object) -> int:
    index = path.parent / "index"
    return main(["publish", str(wheel), "--matrix", str(path), "--to", str(index), *map(str, arguments)])


def test_publishing_proves_with_the_control_wherever_it_lies(
    tmp_path: Path, before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = named(tmp_path, entry(before))
    wheel = axpy(tmp_path / "now", extensions=BOTH)
    assert check(wheel, "--matrix", path, "--evidence") == ExitCode.OK
    moved = before.rename(tmp_path / before.name)
    assert publish(wheel, path) == ExitCode.UNAVAILABLE
    assert "the control is not there" in capsys.readouterr().err
    other = axpy(tmp_path / "other", version="0.0.8", extensions=BOTH)
    assert publish(wheel, path, "--control", other) == ExitCode.REFUSED
    assert "has the sha256" in capsys.readouterr().err
    assert publish(wheel, path, "--control", moved) == ExitCode.OK
    record = ["record", str(wheel), "--target", TARGET, "--matrix", str(path), "--no-deps"]
    assert main(record) == ExitCode.UNAVAILABLE
    assert main([*record, "--control", str(moved)]) == ExitCode.OK


def test_no_file_stands_for_a_control_of_which_only_the_version_is_stated(
    tmp_path: Path, before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = named(tmp_path, '{wheel: "axpy==0.0.9", required: true}')
    loaded = matrix.load(path)
    with pytest.raises(ConfigurationError, match="only where the matrix states its sha256"):
        Controls(loaded, at=before).of_target(TARGET)


def test_evidence_that_was_held_against_another_control_is_refused(tmp_path: Path, before: Path) -> None:
    """Where the matrix states no sha256, the evidence's own is held against what the index gives."""
    path = named(tmp_path, entry(before))
    wheel = axpy(tmp_path / "now", extensions=BOTH)
    assert check(wheel, "--matrix", path, "--evidence") == ExitCode.OK
    document, loaded = evidence.load(evidence.path_for(wheel, TARGET)), matrix.load(path)
    less = read_wheel(axpy(tmp_path / "less", version="0.0.8"))
    with pytest.raises(RefusedError, match="held against a control of sha256"):
        evidence.prove(document, wheel, loaded, controls=lambda target: less)
    with pytest.raises(RefusedError, match=r"judged by another policy: control\.filename"):
        evidence.prove(document, wheel, loaded, controls=lambda target: None)
