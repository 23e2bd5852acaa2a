"""The whole line on the example, as a person would type it: every station is one of the public commands.

Nothing is called here that a command line doesn't offer, so what the demo shows is what a user gets.  Each command is
printed before it runs, each expected verdict is looked for, and the first that doesn't appear ends the demo.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qualify import errors
from qualify.errors import AssayError, ConfigurationError, ExitCode, RefusedError, UnverifiedError, UsageError
from qualify.files import make_folder, write_atomic
from qualify.matrix import LoadedMatrix, load

Say = Callable[[str], None]

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "axpy"
STAMP = ".demo"  # marks a folder as the demo's own, and says which example it was made from
INTERRUPT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    example: Path  # folder with matrix.yaml and the source that it names
    work: Path
    engine: str
    target: str  # "": the first target of this machine
    resume: bool  # go on from the wheels that an earlier run built here


@dataclass(frozen=True, slots=True)
class Sibling:
    """A broken wheel, and the slug of the one check that it is here to fail."""

    name: str
    what: str
    reason: str


EMPTY = Sibling("empty", "an empty shell: AXPY_TARGET_DEVICE=empty", "no-compiled-extension")
ELSEWHERE = Sibling("elsewhere", "compiled for another GPU", "no-code-for-target")
TAMPERED = Sibling("tampered", "one file changed after the build", "hash-differs")
SIBLINGS = (EMPTY, ELSEWHERE, TAMPERED)


def demo(options: Options, say: Say) -> None:
    """Walk the line.

    :raises AssayError: a command ended with another code than it should have (with that code), or a broken wheel was
        not rejected for its reason.
    """
    began = time.monotonic()
    work = _prepare(options)
    loaded = load(work / "matrix.yaml")
    target = _target(loaded, options.target)
    line = _Line(work, target, options, say)
    say(f"The line on {options.example.name}, for {target}, in {_shown(work)}")

    line.station("What the build would be made from")
    line.builders("plan", target, "--matrix", str(work / "matrix.yaml"))
    line.station("Build the wheel at the pin, and judge it: qualified")
    wheel = line.build("good")
    _forget_other_bytes(work, options.example, wheel)
    line.qualify("check", str(wheel), *line.aim, "--evidence")
    line.station("Measure what an install of it reports, and record that in the matrix")
    line.builders("measure", str(wheel), *line.aim, "--engine", options.engine)
    line.builders("record", str(wheel), *line.aim, "--engine", options.engine)
    recorded = load(work / "matrix.yaml").matrix.measured.get(target)
    if recorded is None or recorded.sha256 != _sha256(wheel):
        raise UnverifiedError("the matrix records no measurement of this wheel", where=_shown(work / "matrix.yaml"))
    line.station("Publish it, and install it from there")
    line.qualify("publish", str(wheel), *line.aim, "--to", str(work / "index"))
    line.install(loaded, wheel)
    line.station("Three broken siblings, each rejected for its own reason")
    line.sibling(EMPTY)
    line.reject(EMPTY, line.build("empty", "--set", "AXPY_TARGET_DEVICE=empty"))
    line.sibling(ELSEWHERE)
    line.reject(ELSEWHERE, line.build("elsewhere", "--arch-list", _other_architecture(loaded, target)))
    line.sibling(TAMPERED)
    line.reject(TAMPERED, tamper(wheel, make_clean(work / "wheels" / "tampered") / wheel.name, loaded))
    say(f"\nAll as it should be, in {time.monotonic() - began:.0f} s.")


class _Line:
    """Runs the commands, and knows what every one of them is told."""

    def __init__(self, work: Path, target: str, options: Options, say: Say) -> None:
        self._work = work
        self._target = target
        self._options = options
        self._say = say
        self.aim = ("--target", target, "--matrix", str(work / "matrix.yaml"))

    def station(self, title: str) -> None:
        self._say(f"\n== {title}")

    def qualify(self, *arguments: str, expected: ExitCode = ExitCode.OK) -> None:
        self._run([sys.executable, "-m", "qualify", *arguments], expected)

    def builders(self, *arguments: str) -> None:
        self._run([sys.executable, "-m", "builders", *arguments], ExitCode.OK)

    def build(self, name: str, *extra: str) -> Path:
        """Build into ``wheels/<name>``; a wheel of the same plan that lies there is taken as it is."""
        out = self._work / "wheels" / name
        make_folder(out)
        matrix = str(self._work / "matrix.yaml")
        command = ["build", self._target, "--matrix", matrix, "--engine", self._options.engine, "--out", str(out)]
        self._run([sys.executable, "-m", "builders", *command, *extra], ExitCode.OK)
        wheels = sorted(out.glob("*.whl"))
        if len(wheels) != 1:
            raise UnverifiedError(f"{len(wheels)} wheels after the build", where=_shown(out), expected="one")
        return wheels[0]

    def install(self, loaded: LoadedMatrix, wheel: Path) -> None:
        """Install from the target's index with pip, into a fresh environment, and import it from nowhere near."""
        environment = make_clean(self._work / "venv")
        python = environment / "bin" / "python"
        index = (self._work / "index" / self._target / "simple").as_uri()
        name, module = loaded.matrix.project.name, loaded.matrix.project.import_name
        version = wheel.name.split("-")[1]
        program = f"import {module}; print({module}.__version__, {module}.__file__)"
        self._run([sys.executable, "-m", "venv", str(environment)], ExitCode.OK)
        pip = [str(python), "-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--no-cache-dir"]
        self._run([*pip, "--index-url", index, f"{name}=={version}"], ExitCode.OK)
        self._run([str(python), "-I", "-c", program], ExitCode.OK)

    def sibling(self, sibling: Sibling) -> None:
        self._say(f"\n-- {sibling.what}")

    def reject(self, sibling: Sibling, wheel: Path) -> None:
        """Judge a broken wheel; it must be rejected, for its own reason and for no sibling's."""
        self.qualify("check", str(wheel), *self.aim, "--evidence", expected=ExitCode.REJECTED)
        slugs = _error_slugs(wheel.with_name(f"{wheel.name}.{self._target}.evidence.json"))
        others = {other.reason for other in SIBLINGS if other is not sibling}
        if sibling.reason not in slugs or slugs & others:
            raise UnverifiedError(
                f"rejected for {', '.join(sorted(slugs)) or 'nothing'}",
                where=_shown(wheel),
                expected=f"{sibling.reason}, and none of {', '.join(sorted(others))}",
            )
        self._say(f"   rejected, as it should be: {sibling.reason}")

    def _run(self, command: Sequence[str], expected: ExitCode) -> None:
        """Print a command as one would type it, run it, and hold its exit code against ``expected``."""
        typed = ["python" if part == sys.executable else _shown(part) for part in command]
        self._say(f"$ {shlex.join(typed)}")
        process = subprocess.Popen(command)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            # The terminal interrupted the child as well; it has containers and files to clean up first.
            try:
                process.wait(INTERRUPT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        if code != expected:
            raise _unexpected(code, expected, shlex.join(typed))


def _unexpected(code: int, expected: ExitCode, command: str) -> AssayError:
    """The error whose exit code is the command's own, so that the demo ends as the command did."""
    kinds = (errors.UnavailableError, errors.BuildError, errors.PreflightError, errors.DriftError, RefusedError)
    kind = next((kind for kind in (*kinds, UsageError) if kind.exit_code == code), UnverifiedError)
    return kind(f"ended with {code}", where=command, expected=str(int(expected)))


def _prepare(options: Options) -> Path:
    """The work folder, with a copy of the example's matrix and source; what an earlier demo left is cleared.

    :raises UsageError: the folder holds something that no demo made, or the example isn't there.
    """
    example, work = options.example, options.work.absolute()
    if not (example / "matrix.yaml").is_file():
        raise UsageError("no example here", where=str(example), action="run it in a clone, or name one with --example")
    files = [path for path in sorted(example.iterdir()) if path.suffix in (".yaml", ".bundle")]
    stamp = "".join(f"{path.name} {_sha256(path)}\n" for path in files)
    if work.exists() and any(work.iterdir()) and not (work / STAMP).is_file():
        raise UsageError(
            "the folder holds something that no demo made", where=str(work), action="name another with --work"
        )
    made_from = (work / STAMP).read_text(encoding="utf-8") if (work / STAMP).is_file() else ""
    if not (options.resume and made_from == stamp):
        make_folder(work)
        write_atomic(work / STAMP, "")  # until all is copied the folder belongs to no example
        for name in ("wheels", "index", "venv"):
            _remove(work / name)
        for path in files:
            _copy(path, work)
        write_atomic(work / STAMP, stamp)
    return work


def _target(loaded: LoadedMatrix, wanted: str) -> str:
    """The target to build for: the one asked for, else the first of this machine.

    :raises ConfigurationError: the matrix has none.
    """
    if wanted in loaded.matrix.targets:
        return wanted
    machine = platform.machine()
    fitting = [name for name, target in loaded.matrix.targets.items() if target.machine == machine]
    if wanted or not fitting:
        raise ConfigurationError(
            f"no target {wanted}" if wanted else f"no target for {machine}",
            where=str(loaded.path),
            expected=" or ".join(loaded.matrix.targets),
        )
    return fitting[0]


def _other_architecture(loaded: LoadedMatrix, target: str) -> str:
    """The arch list of a target whose GPU is of another major than this one's: what it asks for can't run here."""
    major = loaded.matrix.targets[target].compute_capability.split(".")[0]
    for other in reversed(loaded.matrix.targets.values()):
        if other.compute_capability.split(".")[0] != major:
            return other.arch_list
    raise ConfigurationError(f"every target has the GPU of {target}", where=str(loaded.path))


def _forget_other_bytes(work: Path, example: Path, wheel: Path) -> None:
    """A wheel built anew is another file: what was recorded and published of the one before goes."""
    recorded = load(work / "matrix.yaml").matrix.measured
    listed = list((work / "index").rglob(wheel.name))
    if any(measured.sha256 != _sha256(wheel) for measured in recorded.values()) or any(
        _sha256(path) != _sha256(wheel) for path in listed
    ):
        _remove(work / "index")
        _copy(example / "matrix.yaml", work)


def tamper(wheel: Path, destination: Path, loaded: LoadedMatrix) -> Path:
    """Copy a wheel with one byte more in the project's ``__init__.py``, and RECORD as it was."""
    changed = f"{loaded.matrix.project.import_name}/__init__.py"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(destination, "w", zipfile.ZIP_DEFLATED) as new:
        for item in old.infolist():
            data = old.read(item)
            new.writestr(item, data + b"\n" if item.filename == changed else data)
    return destination


def make_clean(folder: Path) -> Path:
    """The folder, empty."""
    _remove(folder)
    make_folder(folder)
    return folder


def _copy(path: Path, folder: Path) -> None:
    write_atomic(folder / path.name, path.read_bytes())


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _error_slugs(evidence: Path) -> set[str]:
    """Slugs of the errors in an evidence file's report."""
    try:
        report: Mapping[str, object] = json.loads(evidence.read_text(encoding="utf-8"))["predicate"]["report"]
        findings = report["findings"]
        assert isinstance(findings, list)
        return {str(finding["slug"]) for finding in findings if finding["severity"] == "error"}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnverifiedError("no report to read", where=_shown(evidence), action="see what check said") from error


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _shown(path: Path | str) -> str:
    """A path as one would type it here: relative where it lies below this folder."""
    text = str(path)
    here = f"{Path.cwd()}/"
    return text.removeprefix(here) if text.startswith(here) else text
