"""The demo's own pieces; the line itself is walked in tests/integration/test_demo.py."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from builders import demo
from qualify.errors import ConfigurationError, ExitCode, UnverifiedError, UsageError
from qualify.files import write_atomic
from qualify.matrix import load

AXPY = load(demo.EXAMPLE / "matrix.yaml")


def options(work: Path, *, example: Path = demo.EXAMPLE, resume: bool = False) -> demo.Options:
    return demo.Options(example=example, work=work, engine="local", target="", resume=resume)


def write_atomic_in(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)


def make_wheel(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / "axpy-1.0-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("axpy/__init__.py", "x = 1\n")
        archive.writestr("axpy-1.0.dist-info/RECORD", "axpy/__init__.py,sha256=abc,6\n")
    return wheel


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="no demo made"):
        demo._prepare(options(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_without_an_example_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no example"):
        demo._prepare(options(tmp_path / "work", example=tmp_path))


def test_the_work_folder_gets_a_matrix_that_finds_its_source(tmp_path: Path) -> None:
    work = demo._prepare(options(tmp_path / "work"))
    copied = load(work / "matrix.yaml")
    assert copied.asserted_sha256 == AXPY.asserted_sha256
    assert copied.folder("axpy.bundle").read_bytes() == (demo.EXAMPLE / "axpy.bundle").read_bytes()


def test_a_new_run_starts_over_and_a_resumed_one_does_not(tmp_path: Path) -> None:
    work = demo._prepare(options(tmp_path / "work"))
    make_wheel(work / "wheels" / "good")
    assert demo._prepare(options(work, resume=True)) == work
    assert (work / "wheels" / "good").is_dir()
    demo._prepare(options(work))
    assert not (work / "wheels").exists()


def test_wheels_of_another_example_are_not_resumed(tmp_path: Path) -> None:
    work = demo._prepare(options(tmp_path / "work"))
    make_wheel(work / "wheels" / "good")
    write_atomic(work / demo.STAMP, "matrix.yaml 0000\n")
    demo._prepare(options(work, resume=True))
    assert not (work / "wheels").exists()


def test_what_was_published_of_other_bytes_goes(tmp_path: Path) -> None:
    work = demo._prepare(options(tmp_path / "work"))
    wheel = make_wheel(work / "wheels" / "good")
    listed = work / "index" / "files" / wheel.name
    write_atomic_in(listed, wheel.read_bytes())
    demo._forget_other_bytes(work, demo.EXAMPLE, wheel)
    assert listed.exists()
    write_atomic_in(listed, b"other bytes")
    demo._forget_other_bytes(work, demo.EXAMPLE, wheel)
    assert not (work / "index").exists()
    assert load(work / "matrix.yaml").asserted_sha256 == AXPY.asserted_sha256


def test_tampering_changes_one_file_and_not_its_record(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "good")
    changed = demo.tamper(wheel, tmp_path / wheel.name, AXPY)
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed) as new:
        assert old.namelist() == new.namelist()
        differ = [name for name in old.namelist() if old.read(name) != new.read(name)]
    assert differ == ["axpy/__init__.py"]


def test_the_target_is_this_machines_or_the_one_asked_for() -> None:
    assert demo._target(AXPY, "aarch64-sm121") == "aarch64-sm121"
    assert AXPY.matrix.targets[demo._target(AXPY, "")].machine == demo.platform.machine()
    with pytest.raises(ConfigurationError, match="no target x86_64-sm91"):
        demo._target(AXPY, "x86_64-sm91")


@pytest.mark.parametrize("target", list(AXPY.matrix.targets))
def test_elsewhere_is_an_architecture_that_the_target_cannot_run(target: str) -> None:
    other = demo._other_architecture(AXPY, target)
    assert other.split(".")[0] != AXPY.matrix.targets[target].compute_capability.split(".")[0]


@pytest.mark.parametrize("code", [ExitCode.UNAVAILABLE, ExitCode.BUILD_FAILED, ExitCode.PREFLIGHT, ExitCode.REFUSED])
def test_the_demo_ends_with_the_code_of_the_command_that_failed(code: ExitCode) -> None:
    assert demo._unexpected(code, ExitCode.OK, "qualify check").exit_code == code


def test_a_broken_wheel_that_qualifies_is_no_success() -> None:
    assert demo._unexpected(0, ExitCode.REJECTED, "qualify check").exit_code == ExitCode.UNVERIFIED


def test_every_sibling_has_a_reason_of_its_own() -> None:
    assert len({sibling.reason for sibling in demo.SIBLINGS}) == len(demo.SIBLINGS) == 3


@pytest.mark.parametrize(
    ("slugs", "complaint"),
    [
        (["hash-differs", "build-mode"], ""),
        (["build-mode"], "rejected for build-mode"),
        ([], "rejected for nothing"),
        (["hash-differs", "no-code-for-target"], "rejected for hash-differs, no-code-for-target"),
    ],
)
def test_a_sibling_must_be_rejected_for_its_own_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slugs: list[str], complaint: str
) -> None:
    """The command is left out here; what it would have written lies there."""
    ran: list[tuple[list[str], ExitCode]] = []
    monkeypatch.setattr(demo._Line, "_run", lambda self, command, expected: ran.append((command, expected)))
    wheel = make_wheel(tmp_path)
    findings = [{"slug": slug, "severity": "error"} for slug in slugs] + [{"slug": "a-note", "severity": "note"}]
    statement = wheel.with_name(f"{wheel.name}.x86_64-sm90.evidence.json")
    statement.write_text(json.dumps({"predicate": {"report": {"findings": findings}}}), encoding="utf-8")
    said: list[str] = []
    line = demo._Line(tmp_path, "x86_64-sm90", options(tmp_path), said.append)
    if complaint:
        with pytest.raises(UnverifiedError, match=complaint):
            line.reject(demo.TAMPERED, wheel)
    else:
        line.reject(demo.TAMPERED, wheel)
        assert said == ["   rejected, as it should be: hash-differs"]
    assert [expected for _, expected in ran] == [ExitCode.REJECTED]
