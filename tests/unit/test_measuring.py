from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from qualify import matrix, measuring
from qualify.cli import main
from qualify.errors import MalformedError, UnavailableError, UnverifiedError
from qualify.facts import WheelFacts
from qualify.measuring import Subject, subject_of
from qualify.opening import read_wheel
from qualify.probes import ProbeRequest
from tests.support.line import NOW, axpy, write_matrix
from tests.support.wheel import COMMIT, write_wheel

SUBJECT = Subject("axpy", "axpy", "axpy/_version.py")
HEX = COMMIT.removeprefix("g")


def facts(tmp_path: Path, version: str = "0.1.0", **options: Any) -> WheelFacts:
    return read_wheel(axpy(tmp_path, version=version, **options))


def test_nothing_runs_and_the_version_module_counts(tmp_path: Path) -> None:
    seen = measuring.read(facts(tmp_path, "0.1.0+cu130", runtime_version="0.1.0"), SUBJECT, now=NOW)
    assert seen.conclusive
    assert (seen.distribution_version, seen.runtime_version) == ("0.1.0+cu130", "0.1.0")
    assert (seen.commit, seen.commit_origin) == (HEX, "__commit_id__ of axpy/_version.py")
    assert (seen.build_mode, seen.how, seen.grade, seen.where) == (
        "unstated",
        "version module",
        "version module",
        "the file",
    )
    assert seen.when == "2026-11-30T12:00:00+00:00"


@pytest.mark.parametrize(
    ("distribution", "runtime", "mode"),
    [
        ("0.28.1rc1.dev132+ge126687a9.precompiled", "0.28.1rc1.dev132+ge126687a9", "precompiled"),
        ("0.33.0+empty", "0.33.0", "empty"),
        ("0.33.0+cu129", "0.33.0", "unstated"),
        ("0.1.dev1+ge126687a9.d20260904", "0.1.dev1+ge126687a9.d20260904", "unstated"),
    ],
)
def test_the_two_strings_of_one_build_differ_by_the_suffix(
    tmp_path: Path, distribution: str, runtime: str, mode: str
) -> None:
    seen = measuring.read(facts(tmp_path, distribution, runtime_version=runtime, commit=None), SUBJECT, now=NOW)
    assert seen.conclusive, seen.reason
    assert (seen.distribution_version, seen.runtime_version, seen.build_mode) == (distribution, runtime, mode)
    assert seen.commit == ("e126687a9" if "ge126687a9" in distribution else "")
    assert seen.dirty == ("20260904" if "d2026" in distribution else "")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"omit": ["axpy/_version.py"]}, "no runtime version: axpy/_version.py"),
        ({"runtime_version": "dev"}, '"dev" is no PEP 440 version'),
        ({"runtime_version": "0.2.0"}, "differ in more than a suffix"),
        ({"version": "0.1.0+gabcdef1", "commit": "g1234567"}, "it names several commits"),
    ],
)
def test_what_contradicts_itself_or_is_not_there_is_inconclusive(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    seen = measuring.read(facts(tmp_path, **options), SUBJECT, now=NOW)
    assert reason in seen.reason
    assert not seen.conclusive


def test_a_label_of_the_target_is_no_build_mode(tmp_path: Path) -> None:
    seen = measuring.read(facts(tmp_path, "0.1.0+sm110", runtime_version="0.1.0"), SUBJECT, now=NOW, labels=("sm110",))
    assert (seen.conclusive, seen.build_mode) == (True, "unstated")


def test_without_metadata_there_is_nothing_to_measure(tmp_path: Path) -> None:
    with pytest.raises(MalformedError, match="no METADATA"):
        measuring.read(replace(facts(tmp_path), dist_info=None), SUBJECT, now=NOW)


def test_companions_come_from_exact_requirements_of_the_targets_machine(tmp_path: Path) -> None:
    requires = [
        'torch==2.11.0; platform_machine == "x86_64"',
        'Torch==2.14.0; platform_machine == "aarch64"',
        'flashinfer_python==0.7.2.post1; extra == "fast"',
        "flashinfer-python>=0.7",
        "torchvision==0.29.0",
        "no requirement at all",
    ]
    seen = measuring.read(facts(tmp_path, requires=requires), SUBJECT, now=NOW, machine="aarch64")
    assert (seen.torch, seen.flashinfer, seen.companions_origin) == ("2.14.0", "", "Requires-Dist")
    seen = measuring.read(facts(tmp_path, requires=["torch==2.*", "flashinfer-python==0.7"]), SUBJECT, now=NOW)
    assert (seen.torch, seen.flashinfer) == ("", "0.7")


def test_what_is_measured_comes_from_the_matrix_or_the_wheels_layout(tmp_path: Path) -> None:
    asserted = matrix.load(write_matrix(tmp_path)).matrix
    assert subject_of(facts(tmp_path), asserted) == SUBJECT
    other = read_wheel(write_wheel(tmp_path, name="torch-sort"))
    assert subject_of(other, asserted) == Subject("torch-sort", "torch_sort", "torch_sort/_version.py")
    bare = read_wheel(write_wheel(tmp_path, name="torch-sort", omit=["torch_sort/_version.py"]))
    assert subject_of(bare, None) == Subject("torch-sort", "torch_sort", "")
    two = {"a/__init__.py": "", "b/__init__.py": ""}
    omit = ["torch_sort/_version.py", "torch_sort/__init__.py"]
    torn = read_wheel(write_wheel(tmp_path, name="torch-sort", extensions={}, files=two, omit=omit))
    assert subject_of(torn, None).import_name == ""


@dataclass
class FakeRunner:
    """Answers with what a probe would have found, and keeps what it was asked."""

    result: dict[str, Any]
    asked: list[ProbeRequest] = field(default_factory=list)
    where: str = "a fake place"

    def install_and_import(self, request: ProbeRequest) -> Mapping[str, Any]:
        self.asked.append(request)
        return self.result


def found(of: WheelFacts, **changes: Any) -> dict[str, Any]:
    module = next(member for member in of.members if member.path == "axpy/__init__.py")
    good = {
        "stage": "done",
        "error": "",
        "output": "",
        "python": "3.12.1",
        "machine": "aarch64",
        "distribution_version": "0.1.0",
        "companions": {"torch": "2.14.0+cu130"},
        "runtime_version": "0.1.0",
        "commit_id": COMMIT,
        "outside": [],
        "module": module.path,
        "module_sha256": module.sha256,
    }
    return {**good, **changes}


def install(tmp_path: Path, of: WheelFacts, runner: FakeRunner, **options: Any) -> measuring.Observation:
    return measuring.install(tmp_path / of.filename, of, SUBJECT, runner, now=NOW, **options)


def test_an_import_is_a_grade_of_its_own(tmp_path: Path) -> None:
    of = facts(tmp_path)
    runner = FakeRunner(found(of))
    seen = install(tmp_path, of, runner, find_links=[tmp_path])
    assert (seen.conclusive, seen.how, seen.grade, seen.where) == (True, "import", "import", "a fake place")
    assert (seen.python, seen.machine, seen.commit) == ("3.12.1", "aarch64", HEX)
    assert (seen.torch, seen.flashinfer, seen.companions_origin) == ("2.14.0+cu130", "", "as installed")
    (asked,) = runner.asked
    assert asked == ProbeRequest(
        wheel=tmp_path / of.filename,
        sha256=of.sha256,
        import_name="axpy",
        distribution="axpy",
        version_module="axpy._version",
        companions=("torch", "flashinfer-python"),
        dependencies=True,
        find_links=(tmp_path,),
        timeout=measuring.TIMEOUT,
        import_timeout=measuring.IMPORT_TIMEOUT,
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"outside": ["/src/axpy/__init__.py"]}, "outside the fresh environment: a source tree"),
        ({"module": ""}, "has no file"),
        ({"module": "axpy/other.py"}, "the imported axpy/other.py is not the wheel's file"),
        ({"module_sha256": "0" * 64}, "is not the wheel's file"),
        ({"distribution_version": "0.2.0"}, "installed as version '0.2.0', which METADATA doesn't say"),
        ({"runtime_version": ""}, "the module has no __version__"),
        ({"runtime_version": "9.9"}, "differ in more than a suffix"),
        ({"commit_id": "gfffffff"}, f"imported it states commit fffffff, and its files {HEX}"),
        ({"stage": "import", "error": "OSError: libcuda.so.1"}, "the import failed: OSError: libcuda.so.1"),
        ({"stage": "import", "error": "the import took longer than 1 s"}, "took longer"),
    ],
)
def test_an_import_that_proves_nothing_is_inconclusive(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    of = facts(tmp_path)
    seen = install(tmp_path, of, FakeRunner(found(of, **changes)))
    assert reason in seen.reason
    assert not seen.conclusive


def test_without_dependencies_the_version_module_counts_and_how_says_so(tmp_path: Path) -> None:
    of = facts(tmp_path, requires=["torch==2.14.0"])
    result = found(of, stage="import", error="ModuleNotFoundError: No module named 'torch'", runtime_version="")
    seen = install(tmp_path, of, FakeRunner(result), dependencies=False)
    assert (seen.conclusive, seen.runtime_version, seen.torch) == (True, "0.1.0", "2.14.0")
    assert seen.how == (
        "version module (import without dependencies failed: ModuleNotFoundError: No module named 'torch')"
    )
    assert seen.grade == "version module"


@pytest.mark.parametrize(
    ("output", "action"),
    [
        (
            "ERROR: x.whl is not a supported wheel on this platform.\n",
            "own platform, or by `qualify measure WHEEL`, which",
        ),
        ("ERROR: No matching distribution found for regex\n", "--find-links"),
        ("killed", "measure by `qualify measure WHEEL`"),
    ],
)
def test_what_cannot_be_installed_is_the_environments_fault(tmp_path: Path, output: str, action: str) -> None:
    of = facts(tmp_path)
    with pytest.raises(UnavailableError, match="install failed") as caught:
        install(tmp_path, of, FakeRunner(found(of, stage="install", error="pip ended", output=output)))
    assert action in caught.value.action


def test_texts_of_a_probe_are_cut_and_made_one_line(tmp_path: Path) -> None:
    of = facts(tmp_path)
    runner = FakeRunner(
        found(of, runtime_version="0.1.0\n\x1b[31m" + "x" * 9999, python=["3"], companions={"torch": 3})
    )
    seen = install(tmp_path, of, runner)
    assert len(seen.runtime_version) == 500
    assert seen.runtime_version.isprintable()
    assert (seen.python, seen.torch) == ("", "")


def test_without_a_name_to_import_nothing_is_tried(tmp_path: Path) -> None:
    of = facts(tmp_path)
    with pytest.raises(UnverifiedError, match="which module to import"):
        measuring.install(tmp_path / "x", of, Subject("axpy", "", ""), FakeRunner({}), now=NOW)


def test_the_command_prints_json_or_lines_and_ends_as_it_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_matrix(tmp_path)
    wheel = axpy(tmp_path)
    assert main(["measure", str(wheel), "--json", "--target", "x86_64-sm90"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["version"], printed["runtime_version"], printed["conclusive"]) == (1, "0.1.0", True)
    assert main(["measure", str(wheel)]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert f"commit                {HEX} (from __commit_id__ of axpy/_version.py)" in lines
    assert main(["measure", str(axpy(tmp_path / "w", runtime_version="9"))]) == 3
    assert "inconclusive: runtime version 9 and distribution version 0.1.0 differ" in capsys.readouterr().out
    assert main(["measure", str(wheel), "--target", "x86_64-sm91"]) == 2
    assert main(["measure", str(tmp_path / "none-1-py3-none-any.whl")]) == 2
    assert main(["measure", str(wheel), "--matrix", "none.yaml"]) == 2
