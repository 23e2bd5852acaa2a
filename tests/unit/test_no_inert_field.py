"""No inert field: whatever is read, kept or demanded is used by somebody, and another value makes a difference.

A field that nobody reads is a promise that nobody keeps.  The code is watched while it judges every wheel with one
fault, shows, publishes, records and builds; then every field of facts is given other values, and something that a
person sees has to change.  What is meant to be carried and nothing else stands in a short list, with its reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from builders.cli import main as builders
from builders.commands.plan import lines as plan_lines
from builders.receipts import find_built
from builders.receipts.configurelines import left_out
from qualify import diffing, evidence, since
from qualify.arch import ComputeCapability
from qualify.cli import main as qualify
from qualify.errors import EvidenceError, RefusedError
from qualify.facts import WheelFacts
from qualify.factsjson import code_groups
from qualify.judging import Context, judge
from qualify.matrix import load
from qualify.matrix.model import Configure, NotBuilt, Pin, Profile
from qualify.opening import read_wheel
from qualify.renderers import difference as difference_renderer
from qualify.renderers import facts as facts_renderer
from qualify.renderers import renderer
from qualify.report import HostFloor, PolicyChange, Report, Since
from tests.mutants import MUTANTS, NEAR_MISSES
from tests.support import lab, line
from tests.support.fieldreads import Reads, fields_of, watched
from tests.unit.builders_support import FILES, make_repository, sdist_matrix, write_matrix
from tests.unit.judging_support import HOPPER, SPARK, context, wheel
from tests.unit.test_cargo_locks import LOCK
from tests.unit.test_pipeline import TARGET, Builder, ready
from tests.unit.test_plan_key import MUTANTS as PLANS
from tests.unit.test_plan_key import PLAN
from tests.unit.test_planning import patched, with_build
from tests.unit.test_record_publish_commands import overridden

MODULES = (
    "qualify.facts",
    "qualify.report",
    "qualify.envelope",
    "qualify.evidencedoc",
    "qualify.trust",
    "qualify.vouching",
    "qualify.matrix.model",
    "builders.plan",
    "builders.externals",
    "builders.preflight_items",
)
#: What only writes values down, reads them back or refuses them.
SERIALIZERS = (
    "qualify.factsjson._encode",
    "qualify.factsjson.to_json",
    "qualify.reportjson",
    "qualify.evidencejson",
    "qualify.evidencedoc.statement",
    "qualify.evidencedoc.to_json",
    "qualify.envelope.to_text",
    "builders.plan.Plan.to_json",
    "qualify.matrix.rules",  # refuses a wrong matrix, as a constructor would
)
#: Fields that nobody reads, and why they are there.
CARRIED_ONLY = {
    "WheelFacts.version": "the form of facts.json; the reader of the text refuses another",
    "TrustFile.version": "the form of trusted-keys.yaml; the reader of the text refuses another",
    "Matrix.version": "the form of matrix.yaml; the reader of the text refuses another",
    "Plan.version": "the form of the plan; it is part of its key",
    "CratesPlan.sha256": "identifies the bytes of a Cargo.lock; it is part of the plan's key",
    "Patch.reason": "for whoever reads the matrix; the plan has the patch by its bytes",
    "MemberCoverage.exact": "a part of `native`, for programs that ask how native",
    "MemberCoverage.same_major": "a part of `native`, for programs that ask how native",
    "MemberCoverage.family": "a part of `native`, for programs that ask how native",
    "JitOk.reason": "for whoever reads the matrix; part of the policy in the report",
}


Judged = tuple[WheelFacts, Context, str]  # with the code of the check that is meant


def classes_of(module: str) -> list[type]:
    """The public dataclasses and models that a module defines."""
    found = vars(importlib.import_module(module)).values()
    own = [each for each in found if inspect.isclass(each) and each.__module__ == module and fields_of(each)]
    return [each for each in own if not each.__name__.startswith("_") and "[" not in each.__name__]


KINDS = [kind for module in MODULES for kind in classes_of(module)]


def run_everything(folder: Path) -> None:
    """The whole line once: judge, show, compare, publish, record, plan and build."""
    for case in (*MUTANTS, *NEAR_MISSES):
        facts, asked = case.make(), case.context()
        report = judge(facts, asked)
        for form in ("text", "junit"):
            renderer(form).render([report], width=100, color=False)
        facts_renderer.page(facts)
        if asked.control is not None:
            shown(facts, asked.control)
    path, made = overridden(folder)
    matrix = ["--matrix", str(path)]
    of_target = [str(made.wheel), "--target", made.target, *matrix]
    assert qualify(["publish", str(made.wheel), "--to", str(folder / "to"), *matrix, "--accept-overridden"]) == 0
    assert qualify(["record", *of_target, "--accept-overridden"]) == 0
    assert qualify(["record", *of_target, "--accept-overridden"]) == 0
    key = folder / "lab.key"
    assert qualify(["key", "new", str(key), "--trust", str(path.with_name("trusted-keys.yaml"))]) == 0
    verify = ["verify", str(made.wheel), *matrix, "--accept-overridden", "--max-age", "999w"]
    assert qualify(verify) == 6, "unsigned"
    assert qualify([*verify, "--accept-unsigned"]) == 0
    assert qualify(["check", *of_target, "--evidence", "--sign", str(key), "--expires", "1d"]) == 9
    assert qualify(verify) == 0
    assert qualify([*verify, "--grade", "device"]) == 6
    trusted = path.with_name("trusted-keys.yaml")
    trusted.write_text(trusted.read_text().replace("revoked: false", 'revoked: true\n    why: "lost"'))
    assert qualify(verify) == 6
    path.write_text(path.read_text().replace("2.39", "2.38"))
    control = f'control: {{wheel: "{made.wheel.name}", sha256: "{made.document.sha256}", required: true}}'
    path.write_text(path.read_text().replace("    machine: x86_64", f"    {control}\n    machine: x86_64"))
    assert qualify(["check", *of_target]) == 3, "a wheel is no control of itself"
    assert qualify(["inspect", str(made.wheel)]) == 0
    (folder / "tree" / "axpy").mkdir(parents=True)
    against = ["--against", str(path), "--against-source", str(folder / "tree")]
    assert qualify(["identity", str(made.wheel), *against]) == 1, "an empty tree"
    for name in ("sdist", "git"):
        (folder / name).mkdir()
    (folder / "copy" / "sub").mkdir(parents=True)
    (folder / "copy" / "sub" / "file").write_text("x")
    (folder / "sdist" / "matrix.local.yaml").write_text(f"version: 1\nexternal_sources: {{thing: {folder / 'copy'}}}\n")
    loaded = sdist_matrix(folder / "sdist")
    builder = Builder(loaded, folder)
    assert builder(ready(), overrides={"TINY_MORE": "1"}).wheel.is_file()
    expected = NotBuilt(pattern="Not building X*", reason="for another GPU")
    assert left_out(["-- Not building X as it is"], Configure(expected=(expected,)), ())[0].reason == "for another GPU"
    for more in ([], ["--set", "TINY_DEVICE=empty"]):
        assert builders(["plan", TARGET, "--matrix", str(loaded.path), *more]) == 0
    assert builders(["targets", "--matrix", str(loaded.path)]) == 0
    commit = make_repository(folder / "git" / "repository")
    other = write_matrix(folder / "git", '{subdirectory: ""}', commit, {"https://example.org/tiny": "repository"})
    assert builders(["plan", TARGET, "--matrix", str(other.path)]) == 0
    (folder / "rust").mkdir()
    fetched = "FetchContent_Declare(plain GIT_REPOSITORY https://example.org/plain.git GIT_TAG v1)\n"
    rust = sdist_matrix(folder / "rust", {**FILES, "Cargo.lock": LOCK, "CMakeLists.txt": fetched})
    rust = with_build(rust, "  rust: {toolchain: rust-toolchain.toml}\n")
    assert builders(["plan", TARGET, "--matrix", str(rust.path)]) == 0
    (folder / "fork").mkdir()
    fork = patched(folder / "fork")
    for target in fork.matrix.targets:
        assert builders(["plan", target, "--matrix", str(fork.path)]) == 0


def shown(candidate: WheelFacts, control: WheelFacts) -> str:
    """What ``diff`` says of two wheels."""
    found = diffing.compare(candidate, control, device=ComputeCapability.parse("9.0"), target=HOPPER)
    return difference_renderer.render(found, width=100, color=False, every=True)


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Reads:
    folder = tmp_path_factory.mktemp("line")
    quiet = io.StringIO()
    with (
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
        watched(KINDS, ("qualify", "builders"), SERIALIZERS) as noted,
    ):
        run_everything(folder)
    return noted


def test_every_field_has_a_reader_or_is_carried_for_a_reason(reads: Reads) -> None:
    inert = sorted(set(reads.unread(KINDS)) - CARRIED_ONLY.keys())
    assert not inert, ", ".join(inert)


def test_what_is_carried_only_is_read_by_nobody_and_there(reads: Reads) -> None:
    assert CARRIED_ONLY.keys() <= {f"{kind.__name__}.{name}" for kind in KINDS for name in fields_of(kind)}
    assert sorted(CARRIED_ONLY.keys() - set(reads.unread(KINDS))) == [], "no longer carried only: take it off the list"
    assert all(len(reason) > 20 for reason in CARRIED_ONLY.values())
    assert len(CARRIED_ONLY) <= 12


# Another value makes a difference


def texts(facts: WheelFacts, asked: Context, against: WheelFacts) -> tuple[str, ...]:
    """All that a person is told of a wheel: verdicts, its page, and how it differs from another one."""
    reports = [judge(facts, each) for each in (asked, context(SPARK, Profile.UPSTREAM))]
    return (
        *(renderer(form).render(reports, width=200, color=False) for form in ("text", "junit")),
        drawn(facts),
        shown(facts, against),
        str([code_groups(member) for member in facts.members]),  # what `inspect --json` adds up
    )


def drawn(facts: WheelFacts) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(facts_renderer.page(facts))
    out = console.file
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def instances(value: Any, put: Callable[[Any], WheelFacts]) -> Iterator[tuple[Any, Callable[[Any], WheelFacts]]]:
    """Every dataclass in a wheel's facts, each with what puts another one in its place."""
    yield value, put
    for each in dataclasses.fields(value):
        inner = getattr(value, each.name)

        def outer(new: Any, name: str = each.name) -> WheelFacts:
            return put(dataclasses.replace(value, **{name: new}))

        if dataclasses.is_dataclass(inner):
            yield from instances(inner, outer)
        elif isinstance(inner, tuple):
            for index, item in enumerate(inner):
                if dataclasses.is_dataclass(item):

                    def at(new: Any, index: int = index, inner: Any = inner, outer: Any = outer) -> WheelFacts:
                        return outer((*inner[:index], new, *inner[index + 1 :]))  # type: ignore[no-any-return]

                    yield from instances(item, at)


def others(value: Any, annotation: str) -> list[Any]:
    """Other values of the same kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, Enum):
        return [each for each in type(value) if each is not value]
    if isinstance(value, int):
        return [value + 1, 0, value + (1 << 33)]
    if isinstance(value, str):
        return ["sm_75", "0.9", "9.9", f"{value}x", "", "libother.so.1", "exec", "rel", "/lib64/ld-linux-x86-64.so.2"]
    if isinstance(value, tuple):
        more = {"tuple[str, ...]": ["x.y"], "tuple[int, ...]": [0, 7]}.get(annotation, [])
        renamed = [tuple(f"{each}x" for each in value)] if annotation == "tuple[str, ...]" else []
        return [*renamed, (), value[1:], *((*value, each) for each in more)]
    return [None]


def changes(kind: type, name: str, pool: list[Judged]) -> Iterator[tuple[Judged, WheelFacts]]:
    """A wheel and the same with another value in one field; of each value, one."""
    (annotation,) = [str(each.type) for each in dataclasses.fields(kind) if each.name == name]
    first = ASKED_BY.get(f"{kind.__name__}.{name}", "")
    seen: set[tuple[Any, str]] = set()
    for judged in sorted(pool, key=lambda each: not (first and each[2].startswith(first))):
        for each, put in instances(judged[0], lambda new: new):
            if type(each) is not kind or ((value := getattr(each, name)), judged[2]) in seen:
                continue
            seen.add((value, judged[2]))
            for other in others(value, annotation):
                if other != value:
                    yield judged, put(dataclasses.replace(each, **{name: other}))


#: Facts that one family of checks alone asks for: its wheels are tried first.
ASKED_BY = {"Elf.soname": "LIB", "Import.library": "TOR", "Elf.type": "TOR", "Member.stored_size": "MET"}
_TRIES = 300
#: Facts of which no text says anything, whatever they are, and why they are there.
NOT_TOLD = {
    "WheelFacts.version": "the form of facts.json",
    "WheelFacts.depth": "a wheel whose kernels were not read is refused before anything is said",
    "Elf.interpreter": "told as the member's kind, executable, which was decided by it while the member was read",
    "Container.offset": "where a container lies, in facts.json: for those who look at it with another tool",
}


@pytest.fixture(scope="module")
def pool() -> list[Judged]:
    """Wheels to change, and what each is judged by: a good one, odd ones, then those with a fault."""
    cases = (*NEAR_MISSES, *MUTANTS)
    return [(wheel(), context(), ""), *((case.make(), case.context(), case.code) for case in cases)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in classes_of("qualify.facts")
        for name in fields_of(kind)
        if f"{kind.__name__}.{name}" not in NOT_TOLD
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_another_value_of_a_fact_changes_what_is_said(kind: type, name: str, pool: list[Judged]) -> None:
    before: dict[int, tuple[str, ...]] = {}
    for (facts, asked, _), changed in itertools.islice(changes(kind, name, pool), _TRIES):
        if id(facts) not in before:
            before[id(facts)] = texts(facts, asked, facts)
        if texts(changed, asked, facts) != before[id(facts)]:
            return
    raise AssertionError(f"{kind.__name__}.{name}: whatever its value is, nobody is told another thing")


def test_what_is_not_told_is_a_fact_and_has_a_reason() -> None:
    assert NOT_TOLD.keys() <= {f"{k.__name__}.{name}" for k in classes_of("qualify.facts") for name in fields_of(k)}
    assert len(NOT_TOLD) <= 5


#: Fields of a report that stand in its JSON alone: one text says them in another form.
JSON_ALONE = {"version", "coverage.exact", "coverage.same_major", "coverage.family"}


def test_another_value_in_a_report_changes_what_is_said() -> None:
    facts = wheel({"axpy/_C": {"sm_100": ["k"]}, "axpy/_host": {}, "axpy/_any": {"sm_90": ["k"]}}, commit=None)
    waiver = {"code": "DEV001", "reason": "meant so by its makers", "granted_by": "me", "wheel": facts.sha256}
    earlier = Since("e.json", "2026-11-30", "qualified", "", (PolicyChange("ceilings.glibc", "2.28", "2.39"),))
    report = dataclasses.replace(
        judge(facts, context(waivers=[waiver])), since=earlier, not_judged=("x: need unknown",)
    )
    report = dataclasses.replace(report, floors=(HostFloor("GLIBC_2.28", "axpy/_C.abi3.so", ("pow",), 1),))
    before = told(report)
    silent = set()
    rows: dict[str, Any] = {
        "": report,
        "findings": next(f for f in report.findings if f.waiver),
        "coverage": report.coverage[0],
    }
    rows |= {"floors": report.floors[0], "since": earlier}
    for place, row in rows.items():
        for each in dataclasses.fields(row):
            name = f"{place}.{each.name}" if place else each.name
            value = getattr(row, each.name)
            changed = (told(_with(report, place, row, each.name, other)) for other in report_others(value))
            if not any(text != before for text in changed):
                silent.add(name)
    assert silent == JSON_ALONE


def told(report: Report) -> tuple[str, ...]:
    forms = (renderer(form).render([report], width=200, color=False) for form in ("text", "junit"))
    return (*forms, report.exit_code.name)


def report_others(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [{**value, "torch": {"filename": "t.whl", "sha256": "0" * 64}}]
    return [f"{value}x"] if type(value) is str else others(value, "")


def _with(report: Report, place: str, row: Any, name: str, value: Any) -> Report:
    changed = dataclasses.replace(row, **{name: value})
    if not place:
        return changed  # type: ignore[no-any-return]
    held = getattr(report, place)
    kept = tuple(changed if each is row else each for each in held) if isinstance(held, tuple) else changed
    return dataclasses.replace(report, **{place: kept})


def test_another_value_in_evidence_changes_what_it_is_good_for(tmp_path: Path) -> None:
    """Nearly all make it prove nothing; when it was made and by which version is said by the next report."""
    matrix_path = line.write_matrix(tmp_path)
    made = line.qualified(tmp_path, matrix_path)
    loaded = load(matrix_path)
    report = judge(read_wheel(made.wheel), Context(loaded.matrix, made.target))
    evidence.prove(made.document, made.wheel, loaded)
    before = since.against(report, made.document, "e")
    for each in dataclasses.fields(made.document):
        value = getattr(made.document, each.name)
        other = {} if isinstance(value, Mapping) else value + 1 if isinstance(value, int) else f"{value}x"
        document = dataclasses.replace(made.document, **{each.name: "upstream" if each.name == "profile" else other})
        if each.name in ("made", "tool_version"):
            assert since.against(report, document, "e") != before
        elif each.name not in VOUCHED_FOR:
            with pytest.raises(RefusedError):
                evidence.prove(document, made.wheel, loaded)


#: What no bytes say again: a signature is all that stands behind it.
VOUCHED_FOR = {"expires", "observations", "device_runs", "signature"}


def test_another_value_in_signed_evidence_is_refused_whatever_it_is(tmp_path: Path) -> None:
    made = lab.make_lab(tmp_path)
    document, loaded, demands = made.document(), made.loaded(), made.demands()
    assert evidence.prove(document, made.wheel, loaded, demands=demands).signer == made.key.keyid
    others = {"expires": "2099-01-01T00:00:00+00:00", "observations": ({"sha256": document.sha256},), "signature": None}
    others |= {"device_runs": ({"outcome": "passed"},), "size": 1, "report": {}}
    for each in dataclasses.fields(document):
        value = others.get(each.name, f"{getattr(document, each.name)}x")
        value = "2026-01-01T00:00:00+00:00" if each.name == "made" else value
        with pytest.raises(EvidenceError) as caught:
            evidence.prove(dataclasses.replace(document, **{each.name: value}), made.wheel, loaded, demands=demands)
        assert caught.value.reason == ("unsigned" if each.name == "signature" else "bad-signature")


#: Of a receipt, what decides whether a build is done again; all else is said to whoever asks what a wheel was made of.
RECEIPT_READ = {"version", "key", "engine.name", "wheel.sha256"}
RECEIPT_CARRIED = "for people and audits: what was asked, what was used, what came out; `build --json` prints it"


def test_a_receipt_decides_by_four_values_and_carries_the_rest(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path)
    (tmp_path / "copy" / "sub").mkdir(parents=True)
    (tmp_path / "copy" / "sub" / "file").write_text("x")
    (tmp_path / "matrix.local.yaml").write_text(f"version: 1\nexternal_sources: {{thing: {tmp_path / 'copy'}}}\n")
    built = Builder(load(loaded.path), tmp_path)(ready())
    document = json.loads(built.receipt.read_text())
    key, engine, out = document["key"], document["engine"]["name"], built.receipt.parent
    assert find_built(out, key, engine) == built.wheel
    decides = set()
    for path in leaves(document):
        changed = json.loads(json.dumps(document))
        holder = changed
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = "another"
        built.receipt.write_text(json.dumps(changed))
        if find_built(out, key, engine) is None:
            decides.add(".".join(path))
    assert decides == RECEIPT_READ
    assert RECEIPT_CARRIED


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    else:
        yield path


def test_another_value_in_a_plan_changes_its_key_or_what_is_said() -> None:
    """Each field that decides no bytes is said to people; what of it is nested is :mod:`tests.unit.test_plan_key`'s."""
    said = (PLAN.key(), plan_lines(PLAN))
    heard = {where.partition(".")[0] for where, other in PLANS if (other.key(), plan_lines(other)) != said}
    assert {each.name for each in dataclasses.fields(PLAN)} - heard == set()


# The watch itself


@dataclass(frozen=True, slots=True)
class Sample:
    used: int
    spare: int

    @property
    def doubled(self) -> int:
        return 2 * self.spare

    def to_json(self) -> dict[str, int]:
        return {"used": self.used, "spare": self.spare, "doubled": self.doubled}


def use(sample: Sample) -> int:
    return sample.used


def use_both(sample: Sample) -> int:
    return sample.used + sample.doubled


def test_a_field_that_only_its_own_class_and_a_serializer_read_is_seen() -> None:
    package = __name__.partition(".")[0]
    with watched([Sample], (package,), (f"{__name__}.Sample.to_json",)) as noted:
        sample = Sample(1, 2)
        hash(sample)
        repr(sample)
        dataclasses.asdict(sample)
        use(dataclasses.replace(sample, used=3))
        # Called by a serializer, a property is no use of what it reads.
        sample.to_json()
    assert noted.unread([Sample]) == ["Sample.spare"]
    assert noted.places[Sample, "used"] == {f"{__name__}.use"}
    with watched([Sample], (package,), ()) as noted:
        use_both(sample)
    assert noted.places[Sample, "spare"] == {f"{__name__}.use_both"}
    assert (sample.used, sample.spare) == (1, 2), "the class is as it was"


def test_a_field_that_is_added_to_facts_fails_until_somebody_reads_it(reads: Reads) -> None:
    more = dataclasses.make_dataclass("Elf", ["colour"], frozen=True)
    assert reads.unread([more]) == ["Elf.colour"]
    more_pin = type("Pin", (Pin,), {"__annotations__": {"colour": str}, "colour": ""})
    assert "Pin.colour" in reads.unread([more_pin])
