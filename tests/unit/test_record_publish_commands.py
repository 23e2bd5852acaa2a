from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from builders.cli import main as builders
from qualify.cli import main
from qualify.matrix import load
from qualify.matrix.model import Profile
from tests.support.line import Qualified as Judged
from tests.support.line import axpy, judged, qualified, write_matrix
from tests.support.store import listed, torn, tree
from tests.support.wheel import COMMIT, write_wheel

TARGET = "x86_64-sm90"


def test_publish_takes_every_target_whose_evidence_lies_beside_the_wheel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path)
    command = ["publish", str(made.wheel), "--to", str(tmp_path / "to"), "--matrix", str(path)]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    row = {"wheel": made.wheel.name, "sha256": made.document.sha256, "target": TARGET, "verdict": "qualified"}
    index = str(tmp_path / "to" / TARGET / "simple")
    assert printed == {"version": 1, "published": [{**row, "index": index, "new": True}]}
    assert main(command) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == f"{made.wheel.name} {TARGET}: published already, the same bytes"
    assert lines[1] == f"  pip install --index-url {(tmp_path / 'to' / TARGET / 'simple').as_uri()}/ …"


def test_publish_refuses_what_has_no_evidence_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_matrix(tmp_path)
    good, bare = qualified(tmp_path, path), axpy(tmp_path / "bare", version="0.2.0")
    rejected = judged(axpy(tmp_path / "w", "aarch64-sm110"), TARGET, path)
    for wheel, reason in (
        (bare, "no evidence beside the wheel"),
        (rejected.wheel, f"the wheel is rejected for {TARGET}"),
    ):
        command = ["publish", str(good.wheel), str(wheel), "--to", str(tmp_path / "to"), "--matrix", str(path)]
        assert main(command) == 6
        assert reason in capsys.readouterr().err
    assert main(["publish", str(good.wheel), "--to", str(tmp_path / "to"), "--target", "aarch64-sm110"]) == 6
    assert "no evidence" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def test_publish_wants_release_or_to_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_matrix(tmp_path)
    made = judged(axpy(tmp_path / "w"), TARGET, path, Profile.UPSTREAM)
    command = ["publish", str(made.wheel), "--to", str(tmp_path / "to"), "--matrix", str(path)]
    assert main(command) == 6
    assert "judged with the profile upstream" in capsys.readouterr().err
    assert main([*command, "--accept-profile", "upstream"]) == 0
    assert json.loads((tmp_path / "to/simple/axpy/index.json").read_bytes())["files"][0]["_profile"] == "upstream"


def test_evidence_under_another_targets_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path)
    made.path.rename(made.path.with_name(made.path.name.replace(TARGET, "aarch64-sm110")))
    assert main(["publish", str(made.wheel), "--to", str(tmp_path / "to"), "--matrix", str(path)]) == 6
    assert f"evidence for {TARGET} under the name of aarch64-sm110" in capsys.readouterr().err


def test_publish_of_nothing_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_matrix(tmp_path)
    assert main(["publish", "--to", str(tmp_path / "to")]) == 2
    assert main(["publish", str(tmp_path / "none.whl"), "--to", str(tmp_path / "to"), "--matrix", str(path)]) == 2
    wheel, aim = str(axpy(tmp_path)), ["--to", str(tmp_path / "to"), "--matrix", str(path)]
    assert main(["publish", wheel, *aim, "--target", "../x"]) == 2
    assert main(["publish", str(axpy(tmp_path)), "--to", str(tmp_path / "to"), "--matrix", "none.yaml"]) == 2
    assert capsys.readouterr().out == ""


def test_record_prints_what_it_wrote_and_ends_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path)
    command = ["record", str(made.wheel), "--target", TARGET, "--matrix", str(path)]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["version"], printed["target"], printed["new"]) == (1, TARGET, True)
    assert printed["measured"]["sha256"] == printed["observation"]["sha256"] == made.document.sha256
    assert main(command) == 0
    assert capsys.readouterr().out.startswith(f"matrix.yaml: measured.{TARGET}: recorded already")
    other = judged(axpy(tmp_path / "again", files={"axpy/x.py": ""}), TARGET, path)
    assert main(["record", str(other.wheel), "--target", TARGET, "--matrix", str(path)]) == 7
    assert "sha256: recorded" in capsys.readouterr().err
    assert main(["record", str(axpy(tmp_path / "bare")), "--target", TARGET, "--matrix", str(path)]) == 6
    assert main(["record", str(made.wheel), "--target", "x86_64-sm91", "--matrix", str(path)]) == 2


def test_builders_record_says_it_in_the_same_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builders.probing.runner_for", lambda *_: None)
    path = write_matrix(tmp_path)
    command = ["record", str(qualified(tmp_path, path).wheel), "--target", TARGET, "--matrix", str(path)]
    assert main(command) == 0
    capsys.readouterr()
    for form in ([], ["--json"]):
        said = []
        for of in (main, builders):
            assert of([*command, *form]) == 0
            said.append(capsys.readouterr().out)
        assert said[0].count("\n") > 5
        if form:  # when it was measured is its own
            said = [re.sub(r'"when": "[^"]+"', "", text) for text in said]
        assert said[0] == said[1]


def test_evidence_may_lie_elsewhere(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path)
    elsewhere = tmp_path / "kept.json"
    made.path.rename(elsewhere)
    command = ["record", str(made.wheel), "--target", TARGET, "--matrix", str(path)]
    assert main(command) == 6
    assert main([*command, "--evidence", str(elsewhere)]) == 0


def test_two_wheels_of_two_targets_go_in_by_one_command(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    made = [qualified(tmp_path, path, target) for target in ("aarch64-sm110", "aarch64-sm121")]
    wheels = [str(one.wheel) for one in made]
    assert main(["publish", *wheels, "--to", str(tmp_path / "to"), "--matrix", str(path)]) == 0
    assert torn(tmp_path / "to") == []
    assert [list(listed(tmp_path / "to", one.target).values()) for one in made] == [
        [one.document.sha256] for one in made
    ]
    assert len([name for name in tree(tmp_path / "to") if name.endswith(".whl")]) == 2


WAIVED = f"""
waivers:
  - {{code: DEV001, reason: "meant so by its makers", granted_by: "A. Person", pin: "{COMMIT.removeprefix("g")}"}}
"""


def overridden(folder: Path, target: str = TARGET) -> tuple[Path, Judged]:
    """A matrix with a waiver, and a wheel that it lets through, with its evidence."""
    path = write_matrix(folder, end=WAIVED + "\nmeasured: {}\n")
    extensions = {"axpy/_C": {"sm_100": ["k"]}, "axpy/_host": {}, "axpy/_more": {"sm_90": ["k"]}}
    path.write_text(path.read_text().replace("  axpy/_host:", "  axpy/_more: {code: any}\n  axpy/_host:"))
    wheel = write_wheel(folder, tag="cp311-abi3-manylinux_2_28_x86_64", extensions=extensions)
    made = judged(wheel, target, path)
    assert made.document.report["verdict"] == "overridden", made.document.report["findings"]
    return path, made


def test_what_waivers_let_through_is_published_only_by_name_and_the_page_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, made = overridden(tmp_path)
    command = ["publish", str(made.wheel), "--to", str(tmp_path / "to"), "--matrix", str(path)]
    assert main(command) == 6
    said = capsys.readouterr().err
    assert f"the wheel is overridden for {TARGET}" in said
    assert "--accept-overridden" in said
    assert not (tmp_path / "to").exists()
    assert main([*command, "--accept-overridden"]) == 0
    assert f"{made.wheel.name} {TARGET}: published (overridden)" in capsys.readouterr().out
    for page in (f"{TARGET}/simple", "simple"):
        (file,) = json.loads((tmp_path / "to" / page / "axpy/index.json").read_bytes())["files"]
        assert file["_verdict"] == "overridden"
    (copy,) = (tmp_path / "to/files").glob("*/*/*.evidence.json")
    report = json.loads(copy.read_bytes())["predicate"]["report"]
    assert report["verdict"] == "overridden"
    assert [f["waiver"]["granted_by"] for f in report["findings"] if f["severity"] == "error"] == ["A. Person"]


def test_what_waivers_let_through_is_recorded_only_by_name_and_the_entry_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, made = overridden(tmp_path)
    before = path.read_bytes()
    command = ["record", str(made.wheel), "--target", TARGET, "--matrix", str(path)]
    assert main(command) == 6
    assert "overridden" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert main([*command, "--accept-overridden", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measured"]["verdict"] == "overridden"
    assert 'verdict: "overridden"' in path.read_text()
    assert load(path).matrix.measured[TARGET].verdict == "overridden"
    assert main([*command, "--accept-overridden"]) == 0


def test_a_page_says_what_the_newest_evidence_says_of_the_same_bytes(tmp_path: Path) -> None:
    path, made = overridden(tmp_path)
    command = ["publish", str(made.wheel), "--to", str(tmp_path / "to"), "--matrix", str(path)]
    assert main([*command, "--accept-overridden"]) == 0
    state = tmp_path / "to" / TARGET / "simple/axpy/index.json"
    (first,) = json.loads(state.read_bytes())["files"]
    path.write_text(path.read_text().replace(WAIVED, "").replace("code: native}", "code: any}"))
    assert judged(made.wheel, TARGET, path).document.report["verdict"] == "qualified"
    assert main(command) == 0
    (second,) = json.loads(state.read_bytes())["files"]
    assert (first["_verdict"], second["_verdict"]) == ("overridden", "qualified")
    assert first["upload-time"] == second["upload-time"]


def test_the_flag_lets_nothing_else_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_matrix(tmp_path)
    rejected = judged(axpy(tmp_path / "w", "aarch64-sm110"), TARGET, path)
    command = ["publish", str(rejected.wheel), "--to", str(tmp_path / "to"), "--matrix", str(path)]
    assert main([*command, "--accept-overridden"]) == 6
    assert "rejected" in capsys.readouterr().err


def test_evidence_under_a_waiver_that_nobody_can_grant_proves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, made = overridden(tmp_path)
    text = path.read_text().replace(
        "waivers:",
        f'waivers:\n  - {{code: NEW001, reason: "no such check", granted_by: me, pin: "{COMMIT.removeprefix("g")}"}}',
    )
    path.write_text(text)
    judged(made.wheel, TARGET, path)
    assert main(["publish", str(made.wheel), "--to", str(tmp_path / "to"), "--matrix", str(path)]) == 2
    assert "no check is called NEW001" in capsys.readouterr().err
