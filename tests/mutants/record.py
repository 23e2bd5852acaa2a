"""Wheels with one fault that the checks REC are for."""

from __future__ import annotations

from tests.mutants.case import Case
from tests.mutants.making import (
    TEXT,
    with_record,
)
from tests.support.wheel import ZipMember, record_hash, replaced, wheel_members
from tests.unit.judging_support import archive, wheel

MUTANTS = (
    Case("no RECORD", lambda: wheel(omit=["axpy-0.1.0.dist-info/RECORD"]), "REC001"),
    Case(
        "a file changed after packing",
        lambda: archive(replaced(wheel_members(), TEXT, data=b"changed = True\n")),
        "REC002",
    ),
    Case("a stray file", lambda: archive([*wheel_members(), ZipMember("axpy/stray.txt", b"stray")]), "REC003"),
    Case("a file taken out", lambda: archive([m for m in wheel_members() if m.name != TEXT]), "REC004"),
    Case(
        "a row without a hash",
        lambda: with_record(lambda t: t.replace(f"{TEXT},{record_hash(b'')},", f"{TEXT},,")),
        "REC005",
    ),
    Case(
        "a row with md5",
        lambda: with_record(lambda t: t.replace(record_hash(b""), "md5=1B2M2Y8AsgTpgAmY7PhCfg")),
        "REC005",
    ),
    Case(
        "a row with sha512",
        lambda: with_record(lambda t: t.replace(record_hash(b""), "sha512=z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg")),
        "REC006",
    ),
)
