"""A recorded measurement that was wrong: replaced by name and with a reason, kept in the history, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify import history, matrix, measuredtext, recording
from qualify.cli import main
from qualify.errors import ConfigurationError, DriftError, RefusedError, UnavailableError
from qualify.matrix.model import Measured
from qualify.recording import Correction
from tests.support.line import MATRIX, NOW, qualified, write_matrix
from tests.unit.test_recording import ENTRY, MEASURED, OTHER, TARGET

WHY = Correction("it was taken from another environment", "A. Person")
NEW = MEASURED.model_copy(update={"toolkit": "13.1", "torch": "2.14.0"})


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, Path]:
    """A matrix in which a wrong torch is recorded, and the wheel."""
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path)
    recording.record(made.wheel, TARGET, matrix_path=path, now=NOW)
    path.write_text(path.read_text().replace('torch: ""', 'torch: "9.9"  # as it was said'))
    return path, made.wheel


def test_without_a_correction_it_is_drift(recorded: tuple[Path, Path]) -> None:
    path, wheel = recorded
    before = path.read_bytes()
    with pytest.raises(DriftError, match=r"torch: recorded '9\.9', measured ''"):
        recording.record(wheel, TARGET, matrix_path=path, now=NOW)
    assert path.read_bytes() == before
    assert not history.path_for(path).exists()


def test_a_correction_replaces_the_values_and_keeps_the_old_ones(recorded: tuple[Path, Path]) -> None:
    path, wheel = recorded
    before = path.read_text()
    done = recording.record(wheel, TARGET, matrix_path=path, now=NOW, correct=WHY)
    assert done.replaced is not None
    assert (done.replaced.torch, done.measured.torch) == ("9.9", "")
    assert path.read_text() == before.replace('"9.9"', '""'), "the comment in the entry stays as well"
    (entry,) = history.read(path)
    assert (entry.what, entry.target, entry.by, entry.reason) == ("corrected", TARGET, WHY.by, WHY.reason)
    assert (entry.before["torch"], entry.after["torch"]) == ("9.9", "")
    assert entry.before["sha256"] == entry.after["sha256"]
    assert "corrected; what stood there is kept in matrix.history.jsonl" in recording.lines(done)[0]
    assert recording.to_json(done)["replaced"]["torch"] == "9.9"


def test_a_correction_of_what_is_right_changes_nothing(recorded: tuple[Path, Path]) -> None:
    path, wheel = recorded
    recording.record(wheel, TARGET, matrix_path=path, now=NOW, correct=WHY)
    after = path.read_bytes()
    again = recording.record(wheel, TARGET, matrix_path=path, now=NOW, correct=WHY)
    assert (again.new, again.replaced, path.read_bytes(), len(history.read(path))) == (False, None, after, 1)


def test_nothing_to_correct(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path)
    with pytest.raises(RefusedError, match="nothing is recorded that could be wrong"):
        recording.record(made.wheel, TARGET, matrix_path=path, now=NOW, correct=WHY)


def test_another_commit_is_no_correction(recorded: tuple[Path, Path]) -> None:
    path, wheel = recorded
    head, _, entry = path.read_text().rpartition("measured:")
    commit = matrix.load(path).matrix.measured[TARGET].commit
    path.write_text(f"{head}measured:{entry.replace(commit, 'f' * 40)}")
    before = path.read_bytes()
    with pytest.raises(RefusedError, match=r"recorded at commit f{40}, measured at"):
        recording.record(wheel, TARGET, matrix_path=path, now=NOW, correct=WHY)
    assert (path.read_bytes(), history.path_for(path).exists()) == (before, False)


def test_killed_between_history_and_matrix_the_same_command_completes_it(
    recorded: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, wheel = recorded

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(recording, "write_atomic", killed)
        with pytest.raises(KeyboardInterrupt):
            recording.record(wheel, TARGET, matrix_path=path, now=NOW, correct=WHY)
    assert len(history.read(path)) == 1
    assert matrix.load(path).matrix.measured[TARGET].torch == "9.9"
    later = NOW.replace(hour=13)
    recording.record(wheel, TARGET, matrix_path=path, now=later, correct=WHY)
    assert len(history.read(path)) == 1
    assert matrix.load(path).matrix.measured[TARGET].torch == ""


def test_a_history_that_nobody_can_read_stops_a_correction(recorded: tuple[Path, Path]) -> None:
    path, wheel = recorded
    history.path_for(path).write_text('{"version": 1}\n')
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="no entry of a history: keys are missing"):
        recording.record(wheel, TARGET, matrix_path=path, now=NOW, correct=WHY)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--correct"], "a correction says why and by whom"),
        (["--correct", "--reason", "it was wrong"], "a correction says why and by whom"),
        (["--correct", "--reason", "short", "--by", "me"], "a correction says why and by whom"),
        (["--reason", "it was wrong"], "--reason and --by belong to --correct"),
    ],
)
def test_a_correction_has_a_reason_and_a_name(
    recorded: tuple[Path, Path], options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, wheel = recorded
    assert main(["record", str(wheel), "--target", TARGET, "--matrix", str(path), *options]) == 2
    assert said in capsys.readouterr().err


def test_the_command_corrects(recorded: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    path, wheel = recorded
    named = ["record", str(wheel), "--target", TARGET, "--matrix", str(path)]
    assert main(named) == 7
    assert "--correct" in capsys.readouterr().err
    assert main([*named, "--correct", "--reason", WHY.reason, "--by", WHY.by]) == 0
    assert main(named) == 0


LINE = history.Entry("2026-11-30T12:00:00+00:00", "corrected", TARGET, "me", "a\u2028b\n\x85", {"torch": "1"}, {})


def test_a_history_is_only_added_to(tmp_path: Path) -> None:
    path = tmp_path / "matrix.yaml"
    assert history.read(path) == ()
    history.append(path, LINE)
    first = history.path_for(path).read_bytes()
    other = history.Entry("2026-12-01T12:00:00+00:00", "corrected", TARGET, "me", "again", {}, {"torch": "1"})
    history.append(path, other)
    assert history.path_for(path).read_bytes().startswith(first)
    assert history.read(path) == (LINE, other)
    history.append(path, LINE)
    assert len(history.read(path)) == 3, "the same change, after another one, is one more"


@pytest.mark.parametrize(
    "data",
    [
        b"{}\n",
        b"\n",
        b"[]\n",
        b"null\n",
        b'{"version": 2}\n',
        b'{"version": true}\n',
        b"[" * 50_000 + b"\n",
        b"\xff\n",
        b'{"version": 1, "when": 1, "what": "", "target": "", "by": "", "reason": "", "before": {}, "after": {}}\n',
    ],
)
def test_a_line_that_is_no_entry_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "matrix.yaml"
    history.append(path, LINE)
    place = history.path_for(path)
    place.write_bytes(place.read_bytes() + data)
    with pytest.raises(ConfigurationError) as refused:
        history.read(path)
    assert refused.value.where == "matrix.history.jsonl:2"


def move(before: str, after: str, what: str = history.ADVANCED) -> history.Entry:
    report = "sync/2026-12-01-bbbbbbb.md"
    return history.Entry("", what, "", "me", "a reviewed report", {"commit": before}, {"commit": after}, report)


def test_a_commit_is_behind_where_recorded_moves_lead_away_from_it() -> None:
    a, b, c = ("a" * 40, "b" * 40, "c" * 40)
    there = [move(a, b), LINE, move(b, c)]
    assert history.moved(there, a, c)
    assert history.moved(there, a[:9], c[:9])
    assert history.moved(there, b, c)
    assert not history.moved(there, c, a), "nothing leads back"
    assert history.moved([*there, move(c, a, history.ROLLED_BACK)], c, a)
    assert not history.moved([*there, move(c, a, history.ROLLED_BACK)], a, a), "it isn't behind"
    assert not history.moved(there, "d" * 40, c)
    assert not history.moved([move(a, b, history.CORRECTED)], a, b), "a correction moves no pin"
    assert not history.moved([move(a[:6], b)], a[:6], b), "too short to be a commit"
    assert not history.moved([], a, b)


def test_a_line_of_an_earlier_tool_names_no_report(tmp_path: Path) -> None:
    path = tmp_path / "matrix.yaml"
    history.append(path, LINE)
    place = history.path_for(path)
    place.write_bytes(place.read_bytes().replace(b', "report": ""', b""))
    history.append(path, move("a" * 40, "b" * 40))
    assert [entry.report for entry in history.read(path)] == ["", "sync/2026-12-01-bbbbbbb.md"]


def test_a_last_line_without_an_end_is_said(tmp_path: Path) -> None:
    path = tmp_path / "matrix.yaml"
    history.append(path, LINE)
    place = history.path_for(path)
    place.write_bytes(place.read_bytes()[:-1])
    with pytest.raises(ConfigurationError, match="the last line has no end"):
        history.append(path, LINE)


def test_a_history_that_cannot_be_opened(tmp_path: Path) -> None:
    history.path_for(tmp_path / "matrix.yaml").mkdir()
    with pytest.raises(UnavailableError, match="Is a directory"):
        history.read(tmp_path / "matrix.yaml")


ENDS = {
    "a block": "measured:\n" + OTHER + ENTRY + "# the end\n",
    "before another": "measured:\n" + ENTRY + OTHER,
    "no final newline": ("measured:\n" + ENTRY).rstrip(),
    "single quotes and a comment": "measured:\n" + ENTRY.replace('toolkit: "13.0"', "toolkit: '13.0'  # nvcc's"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_the_values_are_replaced(end: str, newline: str) -> None:
    before = (MATRIX + end).replace("\n", newline)
    after = measuredtext.replace(before, TARGET, NEW)
    start = before.index(TARGET, before.index("measured:"))
    expected = before[start:].replace('"13.0"', '"13.1"', 1).replace("'13.0'", '"13.1"', 1)
    assert after == before[:start] + expected.replace('torch: ""', 'torch: "2.14.0"', 1)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_entry_that_gains_a_key_is_written_anew(newline: str) -> None:
    before = (MATRIX + "measured:\n" + ENTRY + OTHER + "# the end\n").replace("\n", newline)
    overridden: Measured = NEW.model_copy(update={"verdict": "overridden"})
    after = measuredtext.replace(before, TARGET, overridden)
    assert f'when: "{NEW.when}"{newline}    verdict: "overridden"{newline}  aarch64-sm110:' in after
    assert after.endswith(f"# the end{newline}")
    assert measuredtext.replace(after, TARGET, MEASURED) == before


def test_an_entry_in_braces() -> None:
    values = ", ".join(
        f'{name}: "{value}"'
        for name, value in MEASURED.model_dump().items()
        if isinstance(value, str) and name != "verdict"
    )
    before = f"{MATRIX}measured: {{{TARGET}: {{{values}}}}}  # by record\n"
    after = measuredtext.replace(before, TARGET, NEW)
    head, _, entry = before.rpartition("measured:")
    expected = entry.replace('toolkit: "13.0"', 'toolkit: "13.1"').replace('torch: ""', 'torch: "2.14.0"')
    assert after == f"{head}measured:{expected}"
    gained = measuredtext.replace(before, TARGET, NEW.model_copy(update={"verdict": "overridden"}))
    assert gained.endswith(', verdict: "overridden"}}  # by record\n')


COMPANIONS = {"torch": "2.14.0+cu130", "nvidia-cutlass-dsl": "4.6.0", "on": "1", "3to2": "1.1"}
WITH = MEASURED.model_copy(update={"companions": COMPANIONS})
NESTED = """\
    companions:
      "3to2": "1.1"
      nvidia-cutlass-dsl: "4.6.0"
      "on": "1"
      torch: "2.14.0+cu130"
"""
WITH_TEXT = ENTRY.replace("    how:", f"{NESTED}    how:")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_companions_are_a_block_of_their_own(newline: str) -> None:
    head = (MATRIX + "measured:\n").replace("\n", newline)
    bare, rich, other = (text.replace("\n", newline) for text in (ENTRY, WITH_TEXT, OTHER))
    assert measuredtext.insert(head + other, TARGET, WITH) == head + other + rich
    assert measuredtext.replace(head + bare + other, TARGET, WITH) == head + rich + other
    assert measuredtext.replace(head + rich + other, TARGET, MEASURED) == head + bare + other
    newer = WITH.model_copy(update={"companions": {**COMPANIONS, "torch": "2.14.1"}})
    noted = rich.replace('"2.14.0+cu130"', "'2.14.0+cu130'  # as pip says")
    expected = noted.replace("'2.14.0+cu130'", '"2.14.1"')
    assert measuredtext.replace(head + noted + other, TARGET, newer) == head + expected + other


def test_companions_in_braces() -> None:
    before = f"{MATRIX}measured: {{aarch64-sm110: {{how: x}}}}\n"
    inserted = measuredtext.insert(before, TARGET, WITH)
    assert (
        'companions: {"3to2": "1.1", nvidia-cutlass-dsl: "4.6.0", "on": "1", torch: "2.14.0+cu130"}, how:' in inserted
    )
    newer = WITH.model_copy(update={"companions": {**COMPANIONS, "torch": "2.14.1"}})
    assert measuredtext.replace(inserted, TARGET, newer) == inserted.replace("2.14.0+cu130", "2.14.1")


def test_what_the_matrix_says_of_companions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "matrix.yaml"
    path.write_text(MATRIX + "measured:\n" + WITH_TEXT)
    assert matrix.load(path).matrix.measured[TARGET].companions == COMPANIONS
    path.write_text(MATRIX + "measured:\n" + ENTRY)
    assert matrix.load(path).matrix.measured[TARGET].companions == {}


def test_a_companion_that_would_be_no_plain_text_is_refused() -> None:
    for companions in ({"a\u2028": "1"}, {"a": "1\n2"}):
        with pytest.raises(RefusedError, match="printable ASCII"):
            measuredtext.insert(MATRIX, TARGET, MEASURED.model_copy(update={"companions": companions}))


@pytest.mark.parametrize(
    "end",
    ["measured: {}\n", "", "measured:\n" + OTHER, "measured:\n" + ENTRY.replace('torch: ""', "torch: |\n      none")],
    ids=["none", "no part", "another's", "a block of text"],
)
def test_no_place_to_replace(end: str) -> None:
    with pytest.raises(ConfigurationError, match="no safe place for the entry"):
        measuredtext.replace(MATRIX + end, TARGET, NEW)
