from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from qualify import matrix, measuredtext, recording
from qualify.errors import (
    AssayError,
    ConfigurationError,
    DriftError,
    ExitCode,
    RefusedError,
    UnavailableError,
    UsageError,
)
from qualify.files import locked
from qualify.matrix.model import Measured, Profile
from tests.support.line import MATRIX, NOW, TARGETS, axpy, judged, qualified, write_matrix
from tests.support.wheel import COMMIT

TARGET = "x86_64-sm90"

MEASURED = Measured(
    runtime_version="0.1.0",
    distribution_version="0.1.0+cu130",
    build_mode="unstated",
    commit=COMMIT.removeprefix("g"),
    sha256="0" * 64,
    toolkit="13.0",
    torch="",
    flashinfer="",
    how="version module",
    when="2026-11-30T12:00:00+00:00",
)

ENTRY = f"""\
  x86_64-sm90:
    runtime_version: "0.1.0"
    distribution_version: "0.1.0+cu130"
    build_mode: "unstated"
    commit: "{COMMIT.removeprefix("g")}"
    sha256: "{"0" * 64}"
    toolkit: "13.0"
    torch: ""
    flashinfer: ""
    how: "version module"
    when: "2026-11-30T12:00:00+00:00"
"""

OTHER = ENTRY.replace("x86_64-sm90", "aarch64-sm110")

ENDS = {
    "empty braces": ("\nmeasured: {}\n", "\nmeasured:\n" + ENTRY),
    "a comment on the line": ("measured: {}  # by record\n", "measured:  # by record\n" + ENTRY),
    "a comment after it": ("measured: {}\n# the end\n", "measured:\n" + ENTRY + "# the end\n"),
    "more keys after it": ("measured: {}\nbuild: {}\n", "measured:\n" + ENTRY + "build: {}\n"),
    "no final newline": ("measured: {}", "measured:\n" + ENTRY),
    "braces on two lines": ("measured: {\n}\n", "measured:\n" + ENTRY),
    "not there": ("", "measured:\n" + ENTRY),
    "not there, and no final newline": ("# end", "measured:\n" + ENTRY + "# end"),
    "not there, before the end of the document": ("...\n", "measured:\n" + ENTRY + "...\n"),
    "one entry": ("measured:\n" + OTHER, "measured:\n" + OTHER + ENTRY),
    "one entry without a newline": (("measured:\n" + OTHER).rstrip(), "measured:\n" + OTHER + ENTRY),
    "one entry and a comment": ("measured:\n" + OTHER + "\n  # note\n", "measured:\n" + OTHER + ENTRY + "\n  # note\n"),
    "one entry and a key": ("measured:\n" + OTHER + "build: {}\n", "measured:\n" + OTHER + ENTRY + "build: {}\n"),
    "quotes and odd blanks": ("measured :   {  }\n", "measured :\n" + ENTRY),
}


@pytest.mark.parametrize(("end", "expected"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_entry_goes_in_and_every_other_byte_stays(end: str, expected: str, newline: str) -> None:
    before, after = (text.replace("\n", newline) for text in (MATRIX + end, MATRIX + expected))
    assert measuredtext.insert(before, TARGET, MEASURED) == after


@pytest.mark.parametrize("end", ["measured: {}\n", "measured:\n" + OTHER, ""])
def test_characters_beyond_ascii_do_not_move_the_place(end: str) -> None:
    before = "\ufeff# ä 🙂 \u2028 # here\n" + MATRIX.replace("# The head", "# Größe 🙂") + end
    after = measuredtext.insert(before, TARGET, MEASURED)
    added = [line[2:] for line in difflib.ndiff(before.split("\n"), after.split("\n")) if line.startswith("+ ")]
    assert "\n".join(added).endswith(ENTRY.rstrip())
    assert not [line for line in difflib.ndiff(before.split("\n"), after.split("\n")) if line[:2] == "- "][1:]


def test_an_entry_in_flow_style_is_continued() -> None:
    flow = "measured: {aarch64-sm110: {" + ", ".join(line.strip() for line in OTHER.split("\n")[1:-1]) + "},}  # end\n"
    after = measuredtext.insert(MATRIX + flow, TARGET, MEASURED)
    assert after.startswith(MATRIX + flow[: flow.index(",}  # end")])
    assert after.endswith("},}  # end\n")


@pytest.mark.parametrize(
    "end", ["measured: []\n", "measured: text\n", "measured: &a {}\nx: *a\n", "build:\n  x: |\n   y\n"]
)
def test_where_there_is_no_safe_place_nothing_is_made_up(end: str) -> None:
    with pytest.raises(ConfigurationError, match="no safe place"):
        measuredtext.insert(MATRIX + end, TARGET, MEASURED)


def test_a_value_that_would_be_no_plain_text_is_refused() -> None:
    with pytest.raises(RefusedError, match="printable ASCII"):
        measuredtext.insert(MATRIX, TARGET, MEASURED.model_copy(update={"torch": "2\u2028.0"}))


def test_a_qualified_wheel_is_recorded(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    before = path.read_bytes()
    made = qualified(tmp_path, path)
    recorded = recording.record(made.wheel, TARGET, matrix_path=path, now=NOW)
    assert recorded.new
    loaded = matrix.load(path)
    measured = loaded.matrix.measured[TARGET]
    assert measured == recorded.measured
    assert "verdict" not in path.read_text(), "only an overridden wheel's entry says it"
    assert measured.model_dump() == {
        "verdict": "qualified",
        "runtime_version": "0.1.0",
        "distribution_version": "0.1.0",
        "build_mode": "unstated",
        "commit": COMMIT.removeprefix("g"),
        "sha256": made.document.sha256,
        "toolkit": measured.toolkit,
        "torch": "",
        "flashinfer": "",
        "companions": {},
        "how": "version module",
        "when": "2026-11-30T12:00:00+00:00",
    }
    assert path.read_bytes().startswith(before.replace(b" {}\n", b"\n"))
    assert loaded.asserted_sha256 == made.document.matrix_sha256, "a measured value asserts nothing"


def test_a_matrix_behind_a_link_is_written_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = write_matrix(tmp_path / "real")
    (tmp_path / "matrix.yaml").symlink_to("real/matrix.yaml")
    made = qualified(tmp_path, path)
    recorded = recording.record(made.wheel, TARGET, matrix_path=tmp_path / "matrix.yaml", now=NOW)
    assert recorded.path == path
    assert (tmp_path / "matrix.yaml").is_symlink()
    assert TARGET in matrix.load(path).matrix.measured


def test_the_same_again_touches_nothing(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path)
    recording.record(made.wheel, TARGET, matrix_path=path, now=NOW)
    before, stat = path.read_bytes(), path.stat()
    again = recording.record(made.wheel, TARGET, matrix_path=path, now=NOW.replace(year=2027))
    assert not again.new
    assert again.measured.when == "2026-11-30T12:00:00+00:00"
    assert path.read_bytes() == before
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (stat.st_mtime_ns, stat.st_ino)


def test_every_target_gets_its_entry(tmp_path: Path) -> None:
    path = write_matrix(tmp_path, "\n# what was seen\nmeasured: {}  # by record alone\n\n# the end\n")
    before = path.read_text()
    for target in TARGETS:
        recording.record(qualified(tmp_path, path, target).wheel, target, matrix_path=path, now=NOW)
    assert list(matrix.load(path).matrix.measured) == list(TARGETS)
    removed = [line for line in difflib.ndiff(before.split("\n"), path.read_text().split("\n")) if line[:2] == "- "]
    assert removed == ["- measured: {}  # by record alone"]


def test_another_value_is_drift_and_both_are_shown(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    recording.record(qualified(tmp_path, path).wheel, TARGET, matrix_path=path, now=NOW)
    before = path.read_bytes()
    other = judged(axpy(tmp_path / "again", files={"axpy/more.py": "x = 1\n"}), TARGET, path)
    with pytest.raises(DriftError) as caught:
        recording.record(other.wheel, TARGET, matrix_path=path, now=NOW)
    assert caught.value.exit_code == ExitCode.DRIFT
    recorded = matrix.load(path).matrix.measured[TARGET].sha256
    assert f"sha256: recorded '{recorded}', measured '{other.document.sha256}'" in str(caught.value)
    assert path.read_bytes() == before


def refused(wheel: Path, path: Path, kind: type[AssayError] = RefusedError, target: str = TARGET) -> str:
    before = path.read_bytes()
    with pytest.raises(kind) as caught:
        recording.record(wheel, target, matrix_path=path, now=NOW)
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in path.parent.iterdir() if entry.name.startswith(".")) == []
    return str(caught.value)


def test_without_evidence_nothing_is_recorded(tmp_path: Path) -> None:
    assert "no evidence" in refused(axpy(tmp_path / "w"), write_matrix(tmp_path))


def test_a_wheel_that_is_not_qualified_is_not_recorded(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    made = judged(axpy(tmp_path / "w", "aarch64-sm110"), TARGET, path)
    assert f"rejected for {TARGET}" in refused(made.wheel, path)


def test_evidence_for_another_target_is_not_taken(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path, "aarch64-sm110")
    made.path.rename(made.path.with_name(made.path.name.replace("aarch64-sm110", TARGET)))
    assert "evidence for aarch64-sm110; expected evidence for x86_64-sm90" in refused(made.wheel, path)


def test_a_target_that_is_not_in_the_matrix_is_a_usage_error(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    assert "not in the matrix" in refused(axpy(tmp_path / "w"), path, UsageError, "x86_64-sm100")


OTHER_COMMIT = "g" + "f" * 40


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"commit": OTHER_COMMIT}, f"commit {'f' * 40}: other"),
        ({"commit": None}, "commit not stated: cannot tell"),
        ({"commit": "g012345"}, "commit not stated: cannot tell"),
        ({"version": "0.1.0+precompiled"}, "build mode 'precompiled'; expected one of source, unstated"),
        ({"omit": ["axpy/_version.py"]}, "no runtime version: axpy/_version.py is not in the wheel"),
    ],
)
def test_what_the_pin_does_not_accept_is_not_recorded(tmp_path: Path, options: dict[str, object], reason: str) -> None:
    # Someone else's wheel may be usable on the target (profile upstream) and still not be the pin's.
    path = write_matrix(tmp_path)
    made = judged(axpy(tmp_path / "w", **options), TARGET, path, Profile.UPSTREAM)  # type: ignore[arg-type]
    if made.document.report["verdict"] == "qualified":
        assert reason in refused(made.wheel, path)
    else:
        assert f"rejected for {TARGET}" in refused(made.wheel, path)


def test_a_matrix_that_changes_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path)
    real = measuredtext.insert

    def slow(text: str, target: str, measured: Measured) -> str:
        path.write_text(text + "# someone else was here\n")
        return real(text, target, measured)

    monkeypatch.setattr(recording, "insert", slow)
    with pytest.raises(RefusedError, match="changed since it was read"):
        recording.record(made.wheel, TARGET, matrix_path=path, now=NOW)
    assert path.read_text().endswith("# someone else was here\n")
    assert matrix.load(path).matrix.measured == {}


def test_a_matrix_that_another_recorder_holds_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path)
    monkeypatch.setattr(recording, "_LOCK_SECONDS", 0.1)
    with locked(path, purpose="other"), pytest.raises(UnavailableError, match="locked by process"):
        recording.record(made.wheel, TARGET, matrix_path=path, now=NOW)
    assert recording.record(made.wheel, TARGET, matrix_path=path, now=NOW).new


def test_the_copy_that_came_with_the_tool_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_matrix(tmp_path)
    monkeypatch.setattr(recording, "__file__", str(tmp_path / "recording.py"))
    assert "came with the tool" in refused(axpy(tmp_path / "w"), path)


def test_no_such_wheel_is_no_matter_of_evidence(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        recording.record(tmp_path / "none.whl", TARGET, matrix_path=path, now=NOW)
