"""What is fuzzed, and what must hold for any bytes: facts, problems or this project's own errors, and nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from qualify import evidencejson, factsjson, policies, renderers, trust, vouching
from qualify.errors import AssayError
from qualify.facts import WheelFacts
from qualify.judging import judge
from qualify.matrix.model import Profile
from qualify.opening import read_wheel
from qualify.readers.archive import read_archive
from qualify.readers.binary import Limits, Problems
from qualify.readers.cubin import read_cubin
from qualify.readers.distinfo import read_dist_info, read_path_file, read_version_module
from qualify.readers.ptx import read_ptx
from qualify.reportjson import document, from_json
from tests.support.context import read
from tests.support.wheel import make_wheel, wheel_filename
from tests.unit.judging_support import HOPPER, SPARK, context

#: Small bounds, so that what is bounded by them is reached by small files.
LIMITS = Limits(
    members=2000,
    member_size=8 << 20,
    total_size=32 << 20,
    entries=2000,
    entry_size=4 << 20,
    device_size=32 << 20,
)
_NOW = datetime(2026, 12, 1, tzinfo=UTC)
_CONTEXTS = (context(HOPPER, Profile.RELEASE), context(SPARK, Profile.UPSTREAM))


def _zip(data: bytes) -> None:
    for member in read_archive(data, LIMITS).members:
        assert member.data_offset == -1 or member.data_offset + member.stored_size <= len(data)


def _member(data: bytes) -> None:
    member, problems = read(data, "x.so", LIMITS)
    for container in member.containers:
        for entry in container.entries:
            assert entry.readable or problems, "an entry that is not readable, and no word why"
            assert all(0 <= index < len(member.symbols) for index in (*entry.kernels, *entry.functions))


def _cubin(data: bytes) -> None:
    assert all(isinstance(name, bytes) for name in read_cubin(data).kernels)


def _ptx(data: bytes) -> None:
    kernels = read_ptx(data).kernels
    assert len(set(kernels)) == len(kernels)


def _text(data: bytes) -> None:
    names = ("METADATA", "WHEEL", "RECORD", "entry_points.txt")
    texts = {f"axpy-0.1.0.dist-info/{name}": data for name in names}
    info = read_dist_info("axpy-0.1.0.dist-info", list(texts), texts, Problems(""))
    read_version_module("axpy/_version.py", data)
    read_path_file("axpy.pth", data)
    json.dumps([info.metadata, info.entry_points, *info.wheel_tags]).encode()


def _wheel(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / wheel_filename()
        path.write_bytes(data)
        facts = read_wheel(path, workers=1, limits=LIMITS)
    judged(facts)


def _evidence(data: bytes) -> None:
    """What is read is what stands there, byte for byte; and nothing that it claims ends in anything but a refusal."""
    document = evidencejson.parse(data, "x")
    assert evidencejson.to_json(document).encode() == data
    policies.changes(document.asked(), {"checks": {}})
    vouching.vouch(document, vouching.Demands(now=_NOW), "x")


def _keys(data: bytes) -> None:
    for key in trust.parse_file(data, "x").keys:
        assert key.start < key.end
        assert trust.keyid_of(key.public) == key.id


def judged(facts: WheelFacts) -> None:
    """The facts through JSON and back, every check, and every renderer."""
    assert factsjson.from_json(json.loads(json.dumps(factsjson.to_json(facts)))) == facts
    reports = tuple(judge(facts, each) for each in _CONTEXTS)
    for report in reports:
        crashed = [finding for finding in report.findings if finding.found.startswith("the check itself failed")]
        assert not crashed, crashed
    results = json.loads(json.dumps(document(reports)))["results"]
    assert tuple(from_json(each) for each in results) == reports
    for name in renderers.RENDERERS:
        renderers.renderer(name).render(reports, width=100, color=True).encode()


def _inside(data: bytes) -> None:
    """The bytes as a member, and as METADATA, of wheels that are good but for them."""
    text = data.decode("utf-8", "replace")
    _wheel(make_wheel(extensions={"axpy/_C": data}, files={"axpy-0.1.0.dist-info/entry_points.txt": data}))
    _wheel(make_wheel(metadata=text, files={"axpy.pth": data, "axpy/kernels/k.fatbin": data}))


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "zip": _zip,
    "member": _member,
    "cubin": _cubin,
    "ptx": _ptx,
    "text": _text,
    "wheel": _wheel,
    "evidence": _evidence,
    "keys": _keys,
    "inside": _inside,
}


def run(target: str, data: bytes) -> bool:
    """Whether the input was read; False where one of our own errors refused it.  Anything else is raised."""
    try:
        TARGETS[target](data)
    except AssayError:
        return False
    return True
