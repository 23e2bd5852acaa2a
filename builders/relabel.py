"""Put a target's label into the local version of a wheel.

Two targets of one machine and version would bear one file name; the label keeps them apart by name as well.  The
file name, the dist-info folder (and ``.data``), METADATA and RECORD change together, in a new file that is whole or
absent.  No other byte changes.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from qualify.errors import MalformedError, UsageError

_MOST_METADATA = 16 << 20  # bytes of METADATA or RECORD that are read into memory


def labelled(version: str, label: str) -> str:
    """A version with a label at the end of its local part.

    ``1.0`` and ``sm110`` give ``1.0+sm110``; ``1.0+gabc`` gives ``1.0+gabc.sm110``; one that ends so already stays.

    :raises UsageError: the label is no single part of a local version.
    """
    if not label.isascii() or not label.isalnum() or label != label.lower():
        raise UsageError(
            f"{label!r} is no label", where="label", expected="lower-case letters and digits, as PEP 440 keeps them"
        )
    local = Version(version).local
    if local is None:
        return f"{version}+{label}"
    if local.split(".")[-1] == label:
        return version
    return f"{version}.{label}"


def relabel(wheel: Path, label: str, additions: Mapping[str, bytes] | None = None) -> Path:
    """The wheel with the label in its version, beside the old one, which is gone afterwards.

    :param label: "" leaves the version as it is.
    :param additions: name below the ``.dist-info`` folder -> content: files that are put into it, and into RECORD.
    :raises MalformedError: no wheel whose parts agree with its file name; the old file stays.
    :raises UsageError: the label is none.
    """
    try:
        version = str(parse_wheel_filename(wheel.name)[1])
    except InvalidWheelFilename as error:
        raise MalformedError(str(error), where=wheel.name) from error
    fresh = labelled(version, label) if label else version
    if fresh == version and not additions:
        return wheel
    name, written, *rest = wheel.name.split("-")
    target = wheel.with_name("-".join((name, fresh if fresh != version else written, *rest)))
    part = wheel.with_name(f".{target.name}.part")
    try:
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(part, "w") as new:
            stem = f"{name}-{written}"
            fresh_stem = stem if fresh == version else f"{name}-{fresh}"
            _rewrite(old, new, stem, fresh_stem, fresh if fresh != version else "", additions or {})
        part.replace(target)
    except zipfile.BadZipFile as error:
        raise MalformedError(f"not a readable archive: {error}", where=wheel.name) from error
    finally:
        part.unlink(missing_ok=True)
    if target != wheel:
        wheel.unlink()
    return target


def _rewrite(
    old: zipfile.ZipFile,
    new: zipfile.ZipFile,
    stem: str,
    fresh_stem: str,
    version: str,
    additions: Mapping[str, bytes],
) -> None:
    record, metadata = f"{stem}.dist-info/RECORD", f"{stem}.dist-info/METADATA"
    names = {entry.filename for entry in old.infolist()}
    for needed in (record, metadata):
        if needed not in names:
            raise MalformedError(f"no {needed}", where=str(old.filename), expected="a folder named as the file is")
    for signature in (f"{record}.jws", f"{record}.p7s"):
        if signature in names:
            raise MalformedError("RECORD is signed, and a signature doesn't survive", where=signature)
    text = _small(old, metadata)
    changed = {metadata: _with_version(text, version, metadata) if version else text}
    added = {f"{stem}.dist-info/{name}": content for name, content in additions.items()}
    replaced = {metadata: changed[metadata], **added}
    changed[record] = _with_names(_small(old, record), stem, fresh_stem, record, replaced)
    when = old.getinfo(metadata).date_time
    for entry in old.infolist():
        if entry.filename in added:
            continue
        if entry.filename == record:
            # RECORD stays the last of its folder; what is added comes before it.
            for name, content in sorted(added.items()):
                fresh = zipfile.ZipInfo(_renamed(name, stem, fresh_stem), when)
                fresh.external_attr, fresh.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
                new.writestr(fresh, content)
        renamed = zipfile.ZipInfo(_renamed(entry.filename, stem, fresh_stem), entry.date_time)
        renamed.external_attr, renamed.compress_type = entry.external_attr, entry.compress_type
        renamed.create_system = entry.create_system
        if entry.filename in changed:
            new.writestr(renamed, changed[entry.filename])
        else:
            renamed.file_size = entry.file_size
            with old.open(entry) as source, new.open(renamed, "w") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)


def _small(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _MOST_METADATA:
        raise MalformedError("too large to be metadata", where=name, expected=f"at most {_MOST_METADATA} bytes")
    with contextlib.suppress(RuntimeError):  # an encrypted member
        return archive.read(name)
    raise MalformedError("can't be read", where=name)


def _with_version(metadata: bytes, version: str, where: str) -> bytes:
    """METADATA with another Version header; the description may hold such a line too and stays as it is."""
    head, separator, body = metadata.partition(b"\n\n")
    lines = head.split(b"\n")
    found = [number for number, line in enumerate(lines) if line.lower().startswith(b"version:")]
    if len(found) != 1:
        raise MalformedError(f"{len(found)} Version headers", where=where, expected="one")
    ending = b"\r" if lines[found[0]].endswith(b"\r") else b""
    lines[found[0]] = b"Version: " + version.encode() + ending
    return b"\n".join(lines) + separator + body


def _with_names(record: bytes, stem: str, fresh_stem: str, own: str, replaced: Mapping[str, bytes]) -> bytes:
    """RECORD with new names, and with the digests of the members that are replaced or added."""
    rows = [row for row in csv.reader(io.StringIO(record.decode("utf-8"), newline="")) if row]
    known = {row[0] for row in rows}
    rows[-1:-1] = [[name] for name in sorted(replaced) if name not in known]
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\n")
    for row in rows:
        name, digest, size = (*row, "", "")[:3]
        if name in replaced:
            encoded = base64.urlsafe_b64encode(hashlib.sha256(replaced[name]).digest()).rstrip(b"=").decode()
            digest, size = f"sha256={encoded}", str(len(replaced[name]))
        if name == own:
            digest = size = ""
        writer.writerow((_renamed(name, stem, fresh_stem), digest, size))
    return sink.getvalue().encode("utf-8")


def _renamed(name: str, stem: str, fresh_stem: str) -> str:
    for suffix in (".dist-info/", ".data/"):
        if name.startswith(stem + suffix):
            return fresh_stem + name[len(stem) :]
    return name
