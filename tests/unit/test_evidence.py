from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qualify import evidence, evidencejson, matrix
from qualify.errors import EvidenceError, ExitCode, RefusedError, UsageError
from qualify.matrix.model import Profile
from qualify.opening import read_wheel
from tests.support.line import NOW, Qualified, axpy, judged, qualified, write_matrix

TARGET = "x86_64-sm90"


@pytest.fixture
def made(tmp_path: Path) -> Qualified:
    return qualified(tmp_path, write_matrix(tmp_path), TARGET)


def prove(made: Qualified, wheel: Path | None = None) -> evidence.Evidence:
    loaded = matrix.load(made.path.parent.parent / "matrix.yaml")
    return evidence.prove(evidence.load(made.path), wheel or made.wheel, loaded)


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(text_of(content))


def text_of(content: object) -> str:
    """As the tool lays it out, so that the content alone is judged."""
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def put(*keys: str, value: object) -> Callable[[dict[str, Any]], None]:
    """Another value in the predicate."""

    def change(content: dict[str, Any]) -> None:
        content = content["predicate"]
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


def test_a_document_reads_back_equal(made: Qualified) -> None:
    assert evidence.load(made.path) == made.document
    assert made.path.name == f"{made.wheel.name}.{TARGET}.evidence.json"
    assert evidence.targets_beside(made.wheel) == (TARGET,)


def test_what_was_judged_is_proven(made: Qualified) -> None:
    proof = prove(made)
    assert (proof.target, proof.profile, proof.wheel) == (TARGET, Profile.RELEASE, made.wheel)
    assert proof.sha256 == proof.facts.sha256 == proof.report.sha256 == made.document.sha256


def test_evidence_has_no_door_for_a_caller(made: Qualified) -> None:
    proof = prove(made)
    with pytest.raises(TypeError, match="by hand"):
        evidence.Evidence(None, proof.document, proof.wheel, proof.facts, proof.report)
    with pytest.raises(AttributeError, match="can't be changed"):
        proof._document = dataclasses.replace(proof.document, target="aarch64-sm121")  # type: ignore[misc]
    for door in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied or pickled"):
            door(proof)
    with pytest.raises(TypeError):
        dataclasses.replace(proof, target="x")  # type: ignore[type-var]


def test_a_changed_wheel_is_refused(made: Qualified) -> None:
    data = bytearray(made.wheel.read_bytes())
    data[len(data) // 2] ^= 1
    made.wheel.write_bytes(data)
    with pytest.raises(RefusedError, match="the wheel's bytes are not those judged"):
        prove(made)


def kind(predicate_type: str) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update(predicateType=predicate_type)


def subject(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["subject"][0].update(values)


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "profile": (put("profile", value="upstream"), "contradicts itself: profile"),
    "target": (put("target", value="aarch64-sm121"), "contradicts itself: target"),
    "verdict": (put("report", "verdict", value="rejected"), "says 'rejected', and judging again says 'qualified'"),
    "findings": (put("report", "findings", value=[{"code": "NEW001"}]), "judging again differs in findings"),
    "coverage": (put("report", "coverage", value=[{"member": "axpy/_D"}]), "judging again differs in coverage"),
    "extra key of the report": (put("report", "signed", value="yes"), "judging again differs in signed"),
    "ceiling": (
        put("report", "policy", "ceilings", "glibc", value="2.99"),
        "judged by another policy: ceilings.glibc: 2.99 then, 2.39 now",
    ),
    "facts": (put("facts", "sha256", value="0" * 64), "has another digest"),
    "matrix": (put("matrix", "asserted_sha256", value="0" * 64), "judged with another matrix"),
    "newer": (kind("urn:wheel-assay:evidence:v4"), "schema version 4, newer than this tool knows"),
    "older": (kind("urn:wheel-assay:evidence:v1"), "schema version 1; expected schema version 3; use the version of"),
    "other predicate": (kind("https://slsa.dev/provenance/v1"), "a statement of another kind: predicateType 'https:"),
    "other statement": (lambda content: content.update(_type="other"), "not an evidence document: of type 'other'"),
    "size": (put("size", value="1"), "size is no number"),
    "size in part": (put("size", value=1), "the wheel's bytes are not those judged"),
    "hash": (subject(digest={"sha256": "0" * 64}), "contradicts itself: sha256"),
    "no hash": (subject(digest={"sha256": "00"}), "subject.digest.sha256 is no sha256"),
    "another hash": (
        subject(digest={"sha512": "0" * 128}),
        "keys missing or unknown in subject.digest: sha256, sha512",
    ),
    "two subjects": (lambda content: content["subject"].append(content["subject"][0]), "not about exactly one subject"),
    "name": (subject(name="other-1-py3-none-any.whl"), "contradicts itself: wheel"),
    "policy's hash": (put("policy", "sha256", value="0" * 64), "contradicts itself: policy and the rest of it"),
    "grade": (put("grade", value="device"), "contradicts itself: grade and the rest of it disagree"),
    "receipt": (put("receipt", value={"sha256": "0" * 64}), "contradicts itself: receipt and the rest of it"),
    "control": (put("control", value={"filename": "x", "sha256": "0" * 64}), "contradicts itself: control and"),
    "waivers": (put("waivers", value=[{"code": "DEV001"}]), "contradicts itself: waivers and the rest of it"),
    "made": (put("made", value="yesterday"), "made is no moment in UTC"),
    "made elsewhere": (put("made", value="2026-11-30T13:00:00+01:00"), "made is no moment in UTC"),
    "expires": (put("expires", value="2026-11-30"), "expires is no moment in UTC"),
    "observation": (put("observations", value=[{"sha256": "0" * 64}]), "observations[0] is of 0000"),
    "no observations": (put("observations", value={}), "observations is no list"),
    "device run": (put("device_runs", value=[{"sha256": "0" * 64}]), "device_runs[0] is of 0000"),
    "unknown profile": (put("profile", value="mine"), "profile 'mine'"),
    "unknown key": (put("signature", value="mine"), "keys missing or unknown in predicate: signature"),
    "missing key": (lambda content: content["predicate"].pop("facts"), "missing or unknown in predicate: facts"),
    "unknown key in a part": (put("matrix", "path", value="x"), "keys missing or unknown in matrix: path"),
    "target that is a path": (put("target", value="../x"), "target '../x'"),
    "no object": (put("matrix", value=[]), "matrix is no object"),
    "no text": (put("made", value=None), "made is no text"),
}


@pytest.mark.parametrize(("change", "reason"), TAMPERED.values(), ids=TAMPERED)
def test_each_tampering_is_refused_for_its_own_reason(
    made: Qualified, change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    edit(made.path, change)
    with pytest.raises(RefusedError) as caught:
        prove(made)
    assert reason in str(caught.value)
    assert caught.value.exit_code == ExitCode.REFUSED


def leaves(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [leaf for number, inner in enumerate(value) for leaf in leaves(inner, (*path, number))]
    return [path]


UNWITNESSED = {("made",), ("expires",), ("tool", "version")}


def test_no_value_of_a_document_can_be_changed(made: Qualified, monkeypatch: pytest.MonkeyPatch) -> None:
    """But when it was made and by which version: of those there is no second witness, so nothing rests on them."""
    facts = read_wheel(made.wheel)
    monkeypatch.setattr(evidence.opening, "read_wheel", lambda wheel, progress=None: facts)  # type: ignore[attr-defined]
    content = json.loads(made.path.read_bytes())
    tried = [leaf for leaf in leaves(content) if leaf[1:] not in UNWITNESSED]
    assert len(tried) > 30
    for leaf in tried:
        # Of the policy and the list of checks there are hundreds of values, read in one way.
        many = leaf[1:3] in {("report", "policy"), ("report", "checks")}
        for other in ("changed",) if many else ("changed", 7, None, [], "aarch64-sm110"):
            changed = copy.deepcopy(content)
            holder: Any = changed
            for step in leaf[:-1]:
                holder = holder[step]
            if holder[leaf[-1]] == other:
                continue
            holder[leaf[-1]] = other
            made.path.write_text(text_of(changed))
            with pytest.raises(RefusedError):
                prove(made)
    made.path.write_text(text_of(content))
    assert prove(made).target == TARGET


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ('{"schema": "wheel-assay/evidence", "schema": "wheel-assay/evidence"}', "a key stands twice"),
        ('{"schema": NaN}', "NaN is no JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "the top level is no object"),
        ('{"verdict": "qualified"}', "of type None, no in-toto statement"),
        ('{"payload": ""}', "not an evidence envelope: keys missing or unknown: payloadType, signatures"),
    ],
)
def test_what_was_typed_by_hand_is_refused(made: Qualified, text: str, reason: str) -> None:
    made.path.write_text(text)
    with pytest.raises(RefusedError, match=r"not an evidence (document|envelope)") as caught:
        evidence.load(made.path)
    assert reason in str(caught.value)


def test_a_document_without_bound_is_refused(made: Qualified, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidencejson, "_LARGEST_DOCUMENT", 10)
    with pytest.raises(RefusedError, match="larger than 10 bytes"):
        evidence.load(made.path)


def test_no_evidence_is_refused_and_says_how_to_make_some(made: Qualified) -> None:
    made.path.unlink()
    with pytest.raises(RefusedError, match="no evidence; judge the wheel again"):
        evidence.load(made.path)


def test_evidence_of_another_wheel_is_refused(made: Qualified, tmp_path: Path) -> None:
    other = axpy(tmp_path / "other", version="0.2.0")
    with pytest.raises(RefusedError, match="evidence of another wheel"):
        prove(made, other)


def test_the_same_bytes_under_another_name_are_refused(made: Qualified) -> None:
    renamed = made.wheel.with_name("axpy-9.9-cp311-abi3-manylinux_2_28_x86_64.whl")
    made.wheel.rename(renamed)
    with pytest.raises(RefusedError, match=r"judged under the name axpy-0\.1\.0"):
        prove(made, renamed)


def test_another_matrix_is_refused_and_a_comment_or_a_measured_value_is_not_another(
    made: Qualified, tmp_path: Path
) -> None:
    path = tmp_path / "matrix.yaml"
    text = path.read_text()
    path.write_text("# one more comment\n" + text)
    assert prove(made).target == TARGET
    path.write_text(text.replace('glibc: "2.39"', 'glibc: "2.38"'))
    with pytest.raises(RefusedError, match="judged with another matrix"):
        prove(made)


def test_a_wheel_that_is_not_qualified_has_a_document_and_no_evidence(tmp_path: Path) -> None:
    made = judged(axpy(tmp_path / "w", "aarch64-sm121"), TARGET, write_matrix(tmp_path))
    assert made.document.report["verdict"] == "rejected"
    with pytest.raises(RefusedError, match=f"the wheel is rejected for {TARGET}"):
        prove(made)
    edit(made.path, put("report", "verdict", value="qualified"))
    with pytest.raises(RefusedError, match="says 'qualified', and judging again says 'rejected'"):
        prove(made)


def test_a_document_needs_report_and_facts_of_one_wheel_and_a_target_of_the_matrix(tmp_path: Path) -> None:
    loaded = matrix.load(write_matrix(tmp_path))
    made = qualified(tmp_path, loaded.path)
    other = read_wheel(axpy(tmp_path / "other", version="0.2.0"))
    proof = prove(made)
    with pytest.raises(UsageError, match="different wheels"):
        evidence.from_report(proof.report, other, loaded, NOW)
    elsewhere = dataclasses.replace(proof.report, target="riscv64-sm90")
    with pytest.raises(UsageError, match="not in the matrix"):
        evidence.from_report(elsewhere, proof.facts, loaded, NOW)


@pytest.mark.parametrize("depth", [50, 100, 500, 900, 2000, 100_000])
@pytest.mark.parametrize("place", ["observations", "waivers", "report"])
def test_what_is_nested_without_end_is_refused_in_words(made: Qualified, place: str, depth: int) -> None:
    text = made.path.read_text()
    before = {"observations": '"observations": []', "waivers": '"waivers": []', "report": '"python": ['}[place]
    assert before in text
    deep = "[" * depth + "]" * depth
    after = before.replace("[]", f"[{deep}]") if "[]" in before else before + deep + ","
    with pytest.raises(EvidenceError):
        evidence.prove(
            evidencejson.parse(text.replace(before, after, 1).encode(), "x"),
            made.wheel,
            matrix.load(made.path.parent.parent / "matrix.yaml"),
        )


def test_what_a_stranger_wrote_steers_no_terminal(made: Qualified) -> None:
    steering = "\x1b[2Jqualified\u202e\n"
    places: list[Callable[[dict[str, Any]], object]] = [
        put("tool", "version", value=steering),
        put("target", value=steering),
        put("report", "verdict", value=steering),
        put("report", "policy", "ceilings", "glibc", value=steering),
        put("observations", value=[{"sha256": steering}]),
        subject(name=steering),
        kind(steering),
    ]
    good = made.path.read_text()
    for change in places:
        made.path.write_text(good)
        edit(made.path, change)
        with pytest.raises(EvidenceError) as caught:
            prove(made)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1500
    long = EvidenceError("too-old", "x" * 10_000)
    assert len(long.what) == 1001


def test_a_refusal_crosses_a_process_whole() -> None:
    error = EvidenceError("too-old", "what", where="where", expected="expected", action="action")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.reason, again.exit_code) == (str(error), "too-old", ExitCode.REFUSED)
