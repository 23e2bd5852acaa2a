"""What a receipt adds to what a wheel says of itself, and what is no receipt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.proving import Provenance
from qualify import provenance
from qualify.identity import CommitMatch, identity_of_wheel, matches_pin, with_receipt
from qualify.provenance import BROUGHT, COMPILED_HERE, MAX_SIZE, beside, parse, path_for
from tests.support.receipt import receipt, receipt_document
from tests.support.wheel import COMMIT
from tests.unit.judging_support import matrix, wheel

OTHER = "f" * 40


def _identity(**changes: Any) -> Any:
    facts = wheel()
    return with_receipt(identity_of_wheel(facts), facts, receipt(facts, **changes))


def test_the_words_are_those_that_the_proof_writes() -> None:
    assert {Provenance.COMPILED.value, Provenance.LINKED.value} == COMPILED_HERE
    assert Provenance.ALLOWED.value == BROUGHT


def test_a_local_compile_of_every_binary_states_the_mode_source() -> None:
    assert _identity().build_mode == "source"
    assert _identity(members={"axpy/_host.abi3.so": "foreign"}).build_mode == "unstated"
    assert _identity(members={"axpy/_host.abi3.so": ""}).build_mode == "unstated"
    assert _identity(wheel="e" * 64).build_mode == "unstated"


def test_a_mode_that_the_wheel_states_is_not_overruled() -> None:
    facts = wheel(version="0.1.0+precompiled")
    assert with_receipt(identity_of_wheel(facts), facts, receipt(facts)).build_mode == "precompiled"


def test_a_wheel_without_a_binary_is_no_local_compile() -> None:
    facts = wheel({})
    assert not receipt(facts).compiled_here(facts)


def test_the_receipt_names_the_commit_where_the_wheel_names_none() -> None:
    facts = wheel(commit=None)
    seen = with_receipt(identity_of_wheel(facts), facts, receipt(facts, kind="git", commit=OTHER))
    assert (seen.commit, seen.commit_origin) == (OTHER, "receipt")


def test_a_receipt_and_a_wheel_that_name_two_commits_name_none() -> None:
    seen = _identity(kind="git", commit=OTHER)
    assert seen.commit == ""
    assert matches_pin(seen, matrix().pin) is CommitMatch.CANNOT_TELL
    assert "its receipt" in seen.notes[-1]


def test_a_receipt_lengthens_an_abbreviated_commit() -> None:
    facts = wheel(commit=COMMIT[:10])
    whole = COMMIT[1:].ljust(40, "0")
    seen = with_receipt(identity_of_wheel(facts), facts, receipt(facts, kind="git", commit=whole))
    assert seen.commit == whole


def test_a_pinned_sdist_is_matched_by_its_sha256_alone() -> None:
    pin = matrix().pin.model_copy(update={"commit": None})
    assert matches_pin(_identity(), pin) is CommitMatch.SAME
    assert matches_pin(_identity(sdist="e" * 64), pin) is CommitMatch.OTHER
    assert matches_pin(_identity(kind="git"), pin) is CommitMatch.CANNOT_TELL
    assert matches_pin(identity_of_wheel(wheel()), pin) is CommitMatch.CANNOT_TELL


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version": true}',
        b'{"version": 1e400}',
        b'{"version": 2, "source": [], "proof": {"members": []}}',
        json.dumps({**receipt_document(wheel()), "wheel": {"sha256": 5}}).encode(),
        json.dumps({**receipt_document(wheel()), "repair": {"bundled": "axpy"}}).encode(),
        json.dumps({**receipt_document(wheel()), "proof": {"members": [{"member": "a"}]}}).encode(),
    ],
)
def test_what_is_no_receipt_says_so_and_vouches_for_nothing(data: bytes) -> None:
    read = parse(data, "w.receipt.json")
    assert read.fault
    assert not read.speaks_of(wheel())


def test_another_version_is_named() -> None:
    read = parse(json.dumps({"version": 3}).encode(), "w.receipt.json")
    assert read.fault == "is of version 3, and this tool reads 2"


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = path_for(tmp_path / "w.whl")
    with path.open("wb") as stream:
        stream.truncate(MAX_SIZE + 2)
    found = beside(tmp_path / "w.whl")
    assert found is not None
    assert found.fault == "is larger than 64 MiB"


def test_no_receipt_and_one_that_cannot_be_opened_are_two_things(tmp_path: Path) -> None:
    assert beside(tmp_path / "w.whl") is None
    path_for(tmp_path / "w.whl").mkdir()
    found = beside(tmp_path / "w.whl")
    assert found is not None
    assert found.fault == "could not be read: Is a directory"


def test_a_receipt_without_a_wheel_of_its_own_speaks_of_none() -> None:
    facts = replace(wheel(), sha256="")
    assert not receipt(facts).speaks_of(facts)
    assert receipt_document(facts)["version"] == provenance.RECEIPT_VERSION
