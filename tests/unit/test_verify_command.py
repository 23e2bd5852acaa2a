"""``qualify verify``: each way of tampering is refused for its own reason, and what is next to it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from qualify import evidencejson, keys, provenance
from qualify.cli import main
from qualify.errors import ExitCode
from qualify.matrix.model import Profile
from qualify.refusals import Reason
from tests.support.lab import TARGET, YEAR, Lab, make_lab
from tests.support.line import axpy, judged

ROOT = Path(__file__).parents[2]
Way = Callable[[Lab], list[str] | None]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.delenv("WHEEL_ASSAY_TRUST", raising=False)
    return make_lab(tmp_path)


def verify(lab: Lab, *more: str) -> int:
    return main(["verify", str(lab.wheel), str(lab.path), "--matrix", str(lab.matrix), *more])


def stranger(lab: Lab) -> keys.PrivateKey:
    return keys.new(lab.folder / "stranger.key")


def predicate(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["predicate"].update(values)


def report(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["predicate"]["report"].update(values)


def moment(lab: Lab, span: timedelta) -> str:
    return (lab.now + span).isoformat(timespec="seconds")


def envelope(**values: object) -> Way:
    def way(lab: Lab) -> None:
        content = json.loads(lab.path.read_bytes())
        content.update(values)
        lab.path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")

    return way


def text(before: str, after: str) -> Way:
    def way(lab: Lab) -> None:
        known = lab.path.read_text()
        assert known.count(before) == 1
        lab.path.write_text(known.replace(before, after))

    return way


def written(content: str) -> Way:
    def way(lab: Lab) -> None:
        lab.path.write_text(content)

    return way


def forged(change: Callable[[dict[str, Any]], object], *more: str) -> Way:
    def way(lab: Lab) -> list[str]:
        lab.forge(change)
        return list(more)

    return way


# -- ways ------------------------------------------------------------------------------------------------------


def flipped_wheel(lab: Lab) -> None:
    data = bytearray(lab.wheel.read_bytes())
    data[len(data) // 2] ^= 1
    lab.wheel.write_bytes(data)


def longer_wheel(lab: Lab) -> None:
    lab.wheel.write_bytes(lab.wheel.read_bytes() + b"\0")


def rebuilt_wheel(lab: Lab) -> None:
    """Another build of the same version, under the same name: good, and not what was judged."""
    axpy(lab.wheel.parent, files={"axpy/more.py": "more = 1\n"})


def renamed_wheel(lab: Lab) -> None:
    lab.wheel = lab.wheel.rename(lab.wheel.with_name("axpy-9.9-cp311-abi3-manylinux_2_28_x86_64.whl"))


def evidence_of_another_wheel(lab: Lab) -> None:
    other = make_lab(lab.folder / "other", version="0.2.0")
    lab.put(other.content(), lab.key)


def edited_payload(lab: Lab) -> None:
    """The content of one document under the signature of another."""
    signature = json.loads(lab.path.read_bytes())["signatures"]
    lab.forge(predicate(made=moment(lab, -timedelta(minutes=1))))
    envelope(signatures=signature)(lab)


def no_signature(lab: Lab) -> None:
    lab.put(lab.content(), None)


def by_a_stranger(lab: Lab) -> None:
    lab.put(lab.content(), stranger(lab))


def by_a_stranger_in_our_name(lab: Lab) -> None:
    by_a_stranger(lab)
    content = json.loads(lab.path.read_bytes())
    envelope(signatures=[{"keyid": lab.key.keyid, "sig": content["signatures"][0]["sig"]}])(lab)


def two_signatures(lab: Lab) -> None:
    rows = json.loads(lab.path.read_bytes())["signatures"]
    by_a_stranger(lab)
    envelope(signatures=[*rows, *json.loads(lab.path.read_bytes())["signatures"]])(lab)


def expired_key(lab: Lab) -> None:
    lab.trust(lab.now - YEAR, lab.now - timedelta(days=1))


def early_key(lab: Lab) -> None:
    lab.trust(lab.now + timedelta(days=1), lab.now + YEAR)


def revoked_key(lab: Lab) -> None:
    lab.trust(lab.now - YEAR, lab.now + YEAR, revoked="it lay on a share")


def made_before_the_key(lab: Lab) -> None:
    lab.forge(predicate(made=moment(lab, -2 * YEAR)))


def no_trust(lab: Lab) -> None:
    lab.trusted.unlink()


def older_matrix(lab: Lab) -> None:
    lab.matrix.write_text(lab.matrix.read_text().replace('glibc: "2.39"', 'glibc: "2.38"'))


def older_table(content: dict[str, Any]) -> None:
    content["predicate"]["report"]["policy"]["data"]["manylinux.json"] = "0" * 64
    rehash(content)


def milder_check(content: dict[str, Any]) -> None:
    content["predicate"]["report"]["policy"]["checks"]["DEV001"] = "note in both profiles"
    rehash(content)


def rehash(content: dict[str, Any]) -> None:
    from qualify.report import digest

    inside = content["predicate"]["report"]
    inside["policy_sha256"] = content["predicate"]["policy"]["sha256"] = digest(inside["policy"])


def another_target(content: dict[str, Any]) -> None:
    content["predicate"]["target"] = content["predicate"]["report"]["target"] = "aarch64-sm90"


def receipt_added(lab: Lab) -> None:
    provenance.path_for(lab.wheel).write_text("{}")


def named_control(lab: Lab) -> list[str]:
    """The matrix names a control by its sha256; another wheel lies where it should."""
    before = axpy(lab.folder / "before", version="0.0.9")
    other = axpy(lab.folder / "other", version="0.0.8")
    control = f'control: {{wheel: "before/{before.name}", sha256: "{"0" * 64}", required: false}}'
    lab.matrix.write_text(
        lab.matrix.read_text().replace("    machine: x86_64", f"    {control}\n    machine: x86_64", 1)
    )
    lab.forge(predicate(matrix={"asserted_sha256": lab.loaded().asserted_sha256}))
    return ["--control", str(other)]


def honestly_rejected(lab: Lab) -> None:
    wheel = axpy(lab.folder / "rejected", extensions={"axpy/_C": {"sm_80": ["k"]}, "axpy/_host": {}})
    made = judged(wheel, TARGET, lab.matrix)
    lab.wheel, lab.path = wheel, made.path
    lab.forge(predicate(made=moment(lab, -timedelta(hours=1))))


def upstream(lab: Lab) -> list[str]:
    made = judged(lab.wheel, TARGET, lab.matrix, Profile.UPSTREAM)
    lab.path = made.path
    lab.forge(predicate(made=moment(lab, -timedelta(hours=1))))
    return ["--profile", "release"]


def device_run(lab: Lab, **values: object) -> dict[str, object]:
    device = {"name": "a GPU", "compute_capability": "9.0"}
    run = {"sha256": lab.document().sha256, "target": TARGET, "outcome": "passed", "device": device}
    return {**run, **values}


def device_runs(*changes: dict[str, object], grade: str = "device") -> Way:
    def way(lab: Lab) -> list[str]:
        runs = [device_run(lab, **each) for each in changes]
        lab.forge(predicate(device_runs=runs, grade=grade))
        return ["--grade", "device"]

    return way


def unsigned_device_run(lab: Lab) -> list[str]:
    content = lab.content()
    content["predicate"].update(device_runs=[device_run(lab)], grade="device")
    lab.put(content, None)
    return ["--accept-unsigned", "--grade", "device"]


def enormous(lab: Lab) -> None:
    with lab.path.open("r+b") as stream:
        stream.truncate((64 << 20) + 1)


WAYS: dict[str, tuple[Way, Reason, str]] = {
    # the wheel
    "a bit of the wheel": (flipped_wheel, Reason.WHEEL_CHANGED, "the wheel's bytes are not those judged"),
    "a byte behind the wheel": (longer_wheel, Reason.WHEEL_CHANGED, "the wheel's bytes are not those judged"),
    "another build of the same name": (rebuilt_wheel, Reason.WHEEL_CHANGED, "the wheel's bytes are not those judged"),
    "the wheel under another name": (renamed_wheel, Reason.WHEEL_NAME, "judged under the name axpy-0.1.0"),
    "evidence of another wheel": (evidence_of_another_wheel, Reason.OTHER_WHEEL, "evidence of another wheel"),
    # the envelope
    "content under another signature": (edited_payload, Reason.BAD_SIGNATURE, "is not one of the lab"),
    "the signature taken off": (no_signature, Reason.UNSIGNED, "unsigned: anybody can have written it"),
    "a stranger's key": (by_a_stranger, Reason.UNKNOWN_KEY, "which is not trusted here"),
    "a stranger under our key's id": (by_a_stranger_in_our_name, Reason.BAD_SIGNATURE, "is not one of the lab"),
    "a second signature": (two_signatures, Reason.ENVELOPE, "2 signatures"),
    "no signature in the envelope": (envelope(signatures=[]), Reason.ENVELOPE, "0 signatures"),
    "another payload type": (envelope(payloadType="text/plain"), Reason.PAYLOAD_TYPE, "is of type 'text/plain'"),
    "a key in the envelope": (envelope(note="x"), Reason.ENVELOPE, "keys missing or unknown: note"),
    "a blank more": (text('"payloadType": ', '"payloadType":  '), Reason.NOT_CANONICAL, "not laid out as it was"),
    "a newline less": (text("\n}\n", "\n}"), Reason.NOT_CANONICAL, "not laid out as it was written"),
    # the key
    "an expired key": (expired_key, Reason.KEY_EXPIRED, "counted until"),
    "a key that doesn't count yet": (early_key, Reason.KEY_NOT_YET_VALID, "counts from"),
    "a revoked key": (revoked_key, Reason.KEY_REVOKED, "was revoked: it lay on a share"),
    "made before the key counted": (made_before_the_key, Reason.MADE_OUTSIDE_KEY, "didn't count"),
    "no trusted keys": (no_trust, Reason.NO_TRUST, "no trusted keys are named here"),
    # its age
    "from the future": (
        lambda lab: lab.forge(predicate(made=moment(lab, timedelta(hours=1)))),  # type: ignore[func-returns-value]
        Reason.MADE_LATER,
        "which is yet to come",
    ),
    "expired": (
        lambda lab: lab.forge(predicate(expires=moment(lab, -timedelta(minutes=1)))),  # type: ignore[func-returns-value]
        Reason.EXPIRED,
        "it expired on",
    ),
    "older than asked": (lambda lab: ["--max-age", "59m"], Reason.TOO_OLD, "60 minutes ago"),
    # what it was judged by
    "an older matrix": (older_matrix, Reason.OTHER_MATRIX, "judged with another matrix"),
    "an older table": (
        forged(older_table),
        Reason.OTHER_POLICY,
        'judged by another policy: data["manylinux.json"]: 0000',
    ),
    "a milder check": (forged(milder_check), Reason.OTHER_POLICY, "judged by another policy: checks.DEV001: note"),
    "an older table, at its word": (forged(older_table, "--no-judging"), Reason.OTHER_POLICY, "manylinux.json"),
    "another target": (forged(another_target), Reason.UNKNOWN_TARGET, "target 'aarch64-sm90' is not in the matrix"),
    "a receipt laid beside it": (receipt_added, Reason.RECEIPT, "judged without a receipt"),
    "a receipt, at its word": (lambda lab: [*(receipt_added(lab) or ()), "--no-judging"], Reason.RECEIPT, "without a"),
    "another control": (named_control, Reason.CONTROL, "sha256"),
    # what it says, over the signature of a trusted key: its owner lies, or was robbed
    "a verdict": (forged(report(verdict="rejected")), Reason.VERDICT, "says 'rejected', and judging again"),
    "findings": (forged(report(findings=[{"code": "NEW001"}])), Reason.REPORT, "judging again differs in findings"),
    "facts": (forged(predicate(facts={"sha256": "0" * 64})), Reason.FACTS, "has another digest"),
    "a lifted value": (forged(predicate(receipt={"sha256": "0" * 64})), Reason.CONTRADICTION, "receipt and the rest"),
    "a wheel that is not qualified": (honestly_rejected, Reason.NOT_QUALIFIED, f"is rejected for {TARGET}"),
    "rejected, at its word": (
        lambda lab: [*(honestly_rejected(lab) or ()), "--no-judging"],
        Reason.NOT_QUALIFIED,
        "is rejected for",
    ),
    # what joined it
    "a foreign observation": (
        forged(predicate(observations=[{"sha256": "0" * 64}])),
        Reason.OBSERVATION,
        "observations[0] is of 0000",
    ),
    "a run of another wheel": (device_runs({"sha256": "0" * 64}), Reason.DEVICE_RUN, "device_runs[0] is of 0000"),
    "a run on another device": (
        device_runs({"device": {"compute_capability": "12.1"}}),
        Reason.DEVICE_RUN,
        "compute capability 12.1",
    ),
    "a run for another target": (device_runs({"target": "aarch64-sm90"}), Reason.DEVICE_RUN, "is of aarch64-sm90"),
    "a run with no outcome": (device_runs({"outcome": None}, grade="static"), Reason.DEVICE_RUN, "says no outcome"),
    # what is asked of it
    "a run that failed": (device_runs({}, {"outcome": "trap"}, grade="static"), Reason.GRADE, "of the grade static"),
    "a grade that nobody signed": (unsigned_device_run, Reason.GRADE, "a claim that no trusted key has signed"),
    "another profile": (upstream, Reason.PROFILE, "judged with the profile upstream"),
    # no evidence at all
    "gone": (lambda lab: lab.path.unlink(), Reason.MISSING, "no evidence"),  # type: ignore[func-returns-value]
    "cut short": (written('{"payload": "eyJ'), Reason.NOT_JSON, "not JSON"),
    "of the previous form": (
        written('{"schema": "wheel-assay/evidence", "version": 2}'),
        Reason.EARLIER_FORM,
        "evidence in the earlier form, schema version 2, which can't be signed",
    ),
    "of a newer form": (
        forged(lambda content: content.update(predicateType="urn:wheel-assay:evidence:v4")),
        Reason.NEWER_FORM,
        "schema version 4, newer than this tool knows",
    ),
    "someone's provenance": (
        forged(lambda content: content.update(predicateType="https://slsa.dev/provenance/v1")),
        Reason.OTHER_PREDICATE,
        "a statement of another kind",
    ),
    "typed": (written('{"verdict": "qualified"}'), Reason.NOT_EVIDENCE, "no in-toto statement"),
    "without bound": (enormous, Reason.TOO_LARGE, "larger than"),
}


@pytest.mark.parametrize("name", WAYS)
def test_each_way_of_tampering_is_refused_for_its_own_reason(
    lab: Lab, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    way, reason, words = WAYS[name]
    more = way(lab) or []
    assert verify(lab, *more, "--json") == ExitCode.REFUSED
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert (said["verified"], said["exit_code"], said["reason"]) == (False, ExitCode.REFUSED, reason), said
    assert words in said["found"]
    assert said["action"], "what to do"
    assert err.count("error: ") == 1
    assert "Traceback" not in err


def test_there_is_a_way_for_every_reason_and_a_line_in_the_manual() -> None:
    assert {reason for _, reason, _ in WAYS.values()} == set(Reason)
    manual = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert not [reason for reason in Reason if f"`{reason}`" not in manual]


def later(lab: Lab) -> list[str]:
    lab.forge(predicate(made=moment(lab, timedelta(minutes=4)), expires=moment(lab, timedelta(minutes=5))))
    return ["--max-age", "1m"]


def moved(lab: Lab) -> None:
    """Wheel, evidence and receipt belong together by bytes and names, wherever they lie."""
    folder = lab.folder / "elsewhere"
    folder.mkdir()
    lab.wheel = lab.wheel.rename(folder / lab.wheel.name)
    lab.path = lab.path.rename(folder / "evidence of mine")


def comment_in_the_matrix(lab: Lab) -> None:
    lab.matrix.write_text("# one more comment\n" + lab.matrix.read_text())


def key_of_the_day(lab: Lab) -> None:
    lab.trust(lab.now, lab.now)
    lab.forge(predicate(made=moment(lab, timedelta(0))))


def more_keys(lab: Lab) -> list[str]:
    """A folder of files, the lab's among them, and other people's keys, one of them revoked."""
    folder = lab.folder / "trust"
    folder.mkdir()
    lab.trusted.rename(folder / "lab.yaml")
    lab.trust(lab.now - YEAR, lab.now + YEAR, revoked="lost", key=stranger(lab))
    lab.trusted.rename(folder / "others.yaml")
    (folder / "README").write_text("no keys")
    return ["--trust", str(folder)]


NEAR: dict[str, tuple[Way, str]] = {
    "nothing": (lambda lab: [], "signed by the lab"),
    "four minutes ahead": (later, "signed by the lab"),
    "as old as asked": (lambda lab: ["--max-age", "2h"], "signed by the lab"),
    "moved": (moved, "signed by the lab"),
    "a comment in the matrix": (comment_in_the_matrix, "signed by the lab"),
    "a key for one day": (key_of_the_day, "signed by the lab"),
    "a folder of keys": (more_keys, "signed by the lab"),
    "at its word": (lambda lab: ["--no-judging"], "not judged again"),
    "a device run": (device_runs({}), "grade      device"),
    "unsigned, and taken so": (lambda lab: [*(no_signature(lab) or ()), "--accept-unsigned"], "signature  unsigned"),
    "a claim of a grade": (
        lambda lab: unsigned_device_run(lab)[:1],
        "grade      static (device runs are claimed, and unsigned)",
    ),
    "signed, and no keys to look with": (
        lambda lab: [*(no_trust(lab) or ()), "--accept-unsigned"],
        "signature not checked: no trusted keys are named here",
    ),
    "what upstream is": (lambda lab: upstream(lab)[:0], "profile upstream"),
}


@pytest.mark.parametrize("name", NEAR)
def test_what_is_next_to_tampering_holds(lab: Lab, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    way, words = NEAR[name]
    more = way(lab) or []
    assert verify(lab, *more) == 0, capsys.readouterr().err
    assert words in capsys.readouterr().out


def test_unsigned_is_taken_without_a_key_and_a_wrong_signature_is_not(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--accept-unsigned`` is for what has no signature; one that is there has to hold."""
    by_a_stranger(lab)
    assert verify(lab, "--accept-unsigned") == ExitCode.REFUSED
    assert "which is not trusted here" in capsys.readouterr().err


def test_all_that_lies_beside_the_wheel_is_checked(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["verify", str(lab.wheel), "--matrix", str(lab.matrix)]
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (row,) = said["results"]
    assert (said["version"], said["verified"], row["target"], row["signer"]) == (1, True, TARGET, lab.key.keyid)
    assert (row["signed"], row["grade"], row["judged_again"], row["verdict"]) == (True, "static", True, "qualified")
    assert 3500 < row["age_seconds"] < 4000
    lab.path.unlink()
    assert main(command) == ExitCode.REFUSED
    assert "no evidence" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["--max-age", "1y"], ExitCode.USAGE, "'1y' is no length of time"),
        (["--max-age", "0d"], ExitCode.USAGE, "no length of time"),
        (["--max-age", "9999999w"], ExitCode.USAGE, "no length of time"),
        (["--trust", "nowhere.yaml"], ExitCode.USAGE, "nowhere.yaml: no such file"),
        (["--no-judging", "--accept-unsigned"], ExitCode.USAGE, "only a trusted signature counts"),
    ],
)
def test_misuse_is_no_refusal(
    lab: Lab, more: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(lab, *more, "--json") == code
    out, err = capsys.readouterr()
    assert words in err
    assert json.loads(out)["reason"] == ""


def test_check_signs_what_verify_takes(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the first command to the last, with an observation and a device run that join."""
    lab.path.unlink()
    measured = tmp_path / "observation.json"
    assert main(["measure", str(lab.wheel), "--matrix", str(lab.matrix), "--json"]) == 0
    measured.write_text(capsys.readouterr().out)
    run = {"version": 1, "sha256": json.loads(measured.read_bytes())["sha256"], "target": TARGET, "outcome": "passed"}
    (tmp_path / "run.json").write_text(json.dumps({**run, "device": {"name": "x", "compute_capability": "9.0"}}))
    check = ["check", str(lab.wheel), "--target", TARGET, "--matrix", str(lab.matrix), "--evidence"]
    joined = ["--observation", str(measured), "--device-run", str(tmp_path / "run.json"), "--expires", "30d"]
    assert main([*check, "--sign", str(tmp_path / "lab.key"), *joined]) == 0
    assert f"evidence (signed by key {lab.key.keyid[:12]}, device): " in capsys.readouterr().err
    assert verify(lab, "--grade", "device", "--profile", "release") == 0
    document = evidencejson.load(lab.path)
    assert (len(document.observations), len(document.device_runs), document.expires > document.made) == (1, 1, True)
    # Without a key it is called what it is.
    assert main(check) == 0
    assert "evidence (unsigned, static): " in capsys.readouterr().err
    assert verify(lab) == ExitCode.REFUSED


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("[]", "of other bytes"),
        ('{"sha256": "00"}', "a device run of other bytes: sha256 00"),
        ('{"sha256": NaN}', "NaN is no JSON"),
    ],
)
def test_what_is_no_device_run_joins_nothing(
    lab: Lab, content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = lab.path.read_bytes()
    (tmp_path / "run.json").write_text(content)
    check = ["check", str(lab.wheel), "--target", TARGET, "--matrix", str(lab.matrix)]
    assert main([*check, "--evidence", "--device-run", str(tmp_path / "run.json")]) == ExitCode.USAGE
    assert words in capsys.readouterr().err
    assert lab.path.read_bytes() == before
    assert main([*check, "--device-run", str(tmp_path / "run.json")]) == ExitCode.USAGE
    assert "belong to --evidence" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["record", "publish"])
def test_what_is_written_from_evidence_asks_the_same_of_it(
    lab: Lab, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where trusted keys are named, a signature has to hold; ``--signed`` asks for one, and ``--max-age`` for youth."""
    more = ["--to", str(tmp_path / "index")] if name == "publish" else []
    command = [name, str(lab.wheel), "--target", TARGET, "--matrix", str(lab.matrix), *more]
    before = lab.matrix.read_bytes()
    good = lab.path.read_bytes()
    assert main([*command, "--max-age", "59m"]) == ExitCode.REFUSED
    by_a_stranger_in_our_name(lab)
    assert main(command) == ExitCode.REFUSED
    no_signature(lab)
    assert main([*command, "--signed"]) == ExitCode.REFUSED
    err = capsys.readouterr().err
    for words in ("60 minutes ago", "is not one of the lab", "unsigned: anybody can have written it"):
        assert words in err
    assert lab.matrix.read_bytes() == before
    assert not (tmp_path / "index").exists()
    assert main(command) == 0, "unsigned, where nothing else is asked"
    unsigned = capsys.readouterr().out
    lab.path.write_bytes(good)
    assert main([*command, "--signed", "--max-age", "2h"]) == 0
    if name == "record":
        assert "  evidence: unsigned\n" in unsigned
        assert "  evidence: signed by the lab (key " in capsys.readouterr().out
    if name == "publish":
        (copy,) = (tmp_path / "index").rglob("*.evidence.json")
        assert copy.read_bytes() == good, "the signed file as it is"
