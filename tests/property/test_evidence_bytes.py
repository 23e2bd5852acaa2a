"""Whatever is done to the bytes of a signed file or of its wheel is refused: no byte of either is without a guard."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualify import evidence, evidencejson
from qualify.errors import AssayError, EvidenceError
from qualify.evidence import Demands
from qualify.refusals import Reason
from qualify.vouching import vouch
from tests.support.lab import Lab, make_lab


@dataclasses.dataclass(frozen=True)
class Signed:
    lab: Lab
    text: bytes  # of the evidence file
    wheel: bytes
    demands: Demands


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    lab = make_lab(tmp_path_factory.mktemp("lab"))
    made = Signed(lab, lab.path.read_bytes(), lab.wheel.read_bytes(), lab.demands())
    assert holds(made, made.text)
    return made


def holds(signed: Signed, text: bytes) -> bool:
    try:
        vouch(evidencejson.parse(text, "x"), signed.demands, "x")
    except EvidenceError:
        return False
    return True


def edited(data: bytes, place: int, mask: int, edit: str) -> bytes:
    """One byte changed, taken out, put in or said twice; or all cut off from there on."""
    place %= len(data)
    before, one, after = data[:place], data[place], data[place + 1 :]
    return {
        "change": before + bytes([one ^ mask]) + after,
        "remove": before + after,
        "insert": before + bytes([mask]) + data[place:],
        "repeat": before + bytes([one, one]) + after,
        "cut": before,
    }[edit]


edits = st.sampled_from(["change", "remove", "insert", "repeat", "cut"])


@settings(deadline=None, max_examples=400)
@given(st.integers(0, 1 << 20), st.integers(1, 255), edits)
def test_any_edit_of_a_byte_of_the_envelope_is_refused(signed: Signed, place: int, mask: int, edit: str) -> None:
    assert not holds(signed, edited(signed.text, place, mask, edit))


def test_no_byte_of_the_envelope_is_without_a_guard(signed: Signed) -> None:
    """Every byte that is not the payload's, with every bit; every byte of the payload with one."""
    content = json.loads(signed.text)
    start = signed.text.index(content["payload"].encode())
    inside = range(start, start + len(content["payload"]))
    outside = [place for place in range(len(signed.text)) if place not in inside]
    assert len(outside) > 250
    tried = [(place, 1 << bit) for place in outside for bit in range(8)] + [(place, 1) for place in inside]
    assert [each for each in tried if holds(signed, edited(signed.text, *each, "change"))] == []


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 1 << 20), st.integers(1, 255), edits)
def test_any_edit_of_a_byte_of_the_wheel_is_refused(signed: Signed, place: int, mask: int, edit: str) -> None:
    """By its bytes, before anything in it is looked at: with judging again and without."""
    lab = signed.lab
    lab.wheel.write_bytes(edited(signed.wheel, place, mask, edit))
    document, loaded = evidencejson.parse(signed.text, "x"), lab.loaded()
    for proof in (evidence.take_at_word, evidence.prove_each):
        with pytest.raises(EvidenceError) as caught:
            proof([document], lab.wheel, loaded, demands=signed.demands)  # type: ignore[operator]
        assert caught.value.reason == Reason.WHEEL_CHANGED


@settings(deadline=None, max_examples=300)
@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_no_file_whatever_ends_in_anything_but_a_refusal(data: bytes) -> None:
    with pytest.raises(AssayError):
        evidencejson.parse(data, "x")


keys = st.sampled_from(["payload", "payloadType", "signatures", "_type", "subject", "predicate", "schema", "version"])
values = st.recursive(
    st.none() | st.integers(-3, 9) | st.text(max_size=3) | st.sampled_from(["application/vnd.in-toto+json", "e30="]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(keys | st.just("keyid") | st.just("sig"), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(keys, values, max_size=6))
def test_no_object_that_resembles_one_ends_in_anything_but_a_refusal(content: dict[str, object]) -> None:
    with pytest.raises(EvidenceError) as caught:
        evidencejson.parse(json.dumps(content).encode(), "x")
    assert caught.value.reason in set(Reason)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_value_of_another_kind_anywhere_is_refused_in_words(signed: Signed, data: st.DataObject) -> None:
    """Signed by the trusted key itself: what was put there is looked at all the same."""
    content = signed.lab.content()
    holder, key = content, "predicate"
    while isinstance(holder[key], dict) and holder[key] and data.draw(st.booleans()):
        holder = holder[key]
        key = data.draw(st.sampled_from(sorted(holder)))
    before = holder[key]
    holder[key] = data.draw(values.filter(lambda value: value != before))
    lab, path = signed.lab, signed.lab.path
    lab.put(content, lab.key)
    forged, _ = path.read_bytes(), path.write_bytes(signed.text)
    lab.wheel.write_bytes(signed.wheel)
    try:
        evidence.prove(evidencejson.parse(forged, "x"), lab.wheel, lab.loaded(), demands=signed.demands)
    except EvidenceError:
        return
    # What no byte says again, and the owner of the key can therefore say as he likes.
    assert key in {"expires", "observations", "version"}
    assert holder is content["predicate"] or holder is content["predicate"]["tool"]


def test_the_lab_is_as_it_was(signed: Signed) -> None:
    signed.lab.wheel.write_bytes(signed.wheel)
    assert Path(signed.lab.path).read_bytes() == signed.text
    assert evidence.prove(
        evidencejson.parse(signed.text, "x"), signed.lab.wheel, signed.lab.loaded(), demands=signed.demands
    ).signer
