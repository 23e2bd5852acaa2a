"""What a build's receipt states of a wheel, as far as a judgement uses it.

A receipt lies beside the wheel that it is for (docs/receipt.md), and binds it by sha256.  It says which source the
wheel was made from, and of each binary why it counts as compiled in that build.  It is unsigned: it is worth what the
folder is worth in which it lies.

The core reads bytes that were handed in; :func:`beside` is for the shell.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qualify.facts import Member, WheelFacts

SUFFIX = ".receipt.json"
RECEIPT_VERSION = 2
MAX_SIZE = 64 << 20  # bytes; a receipt of vLLM, with each object of the build, is below one megabyte

#: What a proof of local compile says of a binary that came out of the build.
COMPILED_HERE = frozenset({"compiled here", "linked here by cargo"})
#: What it says of one that the tree brings and the matrix allows.
BROUGHT = "brought by the tree"


@dataclass(frozen=True, slots=True)
class Receipt:
    """One receipt.  With ``fault`` it could not be read, and nothing else of it counts."""

    filename: str
    sha256: str  # of the receipt itself
    fault: str = ""  # why it could not be read
    wheel_sha256: str = ""
    key: str = ""  # the build key: sha256 of the plan
    source_kind: str = ""  # "git", "sdist"
    commit: str = ""  # of the source; "" where nothing states one
    source_sha256: str = ""  # of an sdist
    patches: tuple[str, ...] = ()  # sha256 of each, in their order
    members: Mapping[str, str] = field(default_factory=dict)  # binary -> where it comes from
    bundled: frozenset[str] = frozenset()  # binaries that a repair brought into the wheel

    def speaks_of(self, facts: WheelFacts) -> bool:
        """Whether it can be read and is for these bytes."""
        return not self.fault and bool(self.wheel_sha256) and self.wheel_sha256 == facts.sha256

    def unproven(self, facts: WheelFacts) -> tuple[tuple[str, str], ...]:
        """Binaries of the wheel, other than what a repair bundled, that it doesn't call compiled here; with what it
        says of each, "" where it says nothing."""
        return tuple(
            (member.path, self.members.get(member.path, ""))
            for member in binaries(facts)
            if member.path not in self.bundled and self.members.get(member.path, "") not in COMPILED_HERE
        )

    def compiled_here(self, facts: WheelFacts) -> bool:
        """Whether the wheel holds binaries, and this is the receipt of a local compile of all of them."""
        own = [member for member in binaries(facts) if member.path not in self.bundled]
        return self.speaks_of(facts) and bool(own) and not self.unproven(facts)


def binaries(facts: WheelFacts) -> Iterator[Member]:
    """The host binaries of a wheel; device code that lies in a file of its own is none."""
    return (member for member in facts.members if member.elf is not None and member.elf.machine != "cuda")


def path_for(wheel: Path) -> Path:
    """Where the receipt of a wheel lies."""
    return wheel.with_name(wheel.name + SUFFIX)


def beside(wheel: Path) -> Receipt | None:
    """The receipt that lies beside a wheel; None where there is none.  One that can't be read says so by ``fault``."""
    path = path_for(wheel)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SIZE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Receipt(path.name, "", fault=f"could not be read: {error.strerror or error}")
    return parse(data, path.name)


def parse(data: bytes, filename: str) -> Receipt:
    """A receipt from its bytes.  Never raises: what is no receipt has a ``fault``."""
    if len(data) > MAX_SIZE:
        return Receipt(filename, "", fault=f"is larger than {MAX_SIZE >> 20} MiB")
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        document = json.loads(data)
        version = document["version"]
        if version != RECEIPT_VERSION or isinstance(version, bool):
            fault = f"is of version {json.dumps(version)[:40]}, and this tool reads {RECEIPT_VERSION}"
            return Receipt(filename, sha256, fault=fault)
        source = document["source"]
        members = {_text(row, "member"): _text(row, "provenance") for row in document["proof"]["members"]}
        return Receipt(
            filename,
            sha256,
            wheel_sha256=_text(document["wheel"], "sha256"),
            key=_text(document, "key"),
            source_kind=_text(source, "kind"),
            commit=_text(source, "commit"),
            source_sha256=_text(source, "sha256"),
            patches=tuple(_text(source["patches"], name) for name in source["patches"]),
            members=members,
            bundled=frozenset(_strings(document["repair"]["bundled"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Receipt(filename, sha256, fault=f"is no receipt: {type(error).__name__}: {str(error)[:80]}")


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value


def _strings(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TypeError("no list of texts")
    return value
