# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2025.5.1", "ruamel.yaml>=0.18.6"]
# ///
"""Sessions.  This file imports nothing of ours: each session is a thin caller of a module command.

The build sessions come from the matrix: ``WHEEL_ASSAY_MATRIX`` or ``matrix.yaml`` beside this file.
nox itself ends with 1 for any failure; scripts that need the exit codes call the module commands.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox
from ruamel.yaml import YAML

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
# A machine has the interpreters that it has: the ones that are missing are named as skipped.
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "tests", "lowest", "integration"]

HERE = Path(__file__).resolve().parent
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
MATRIX = Path(os.environ.get("WHEEL_ASSAY_MATRIX") or HERE / "matrix.yaml").resolve()


def _targets() -> list[str]:
    """Names of the targets, for the session names alone; ``builders`` judges the file."""
    try:
        document = YAML(typ="safe", pure=True).load(MATRIX.read_text(encoding="utf-8"))
        return [str(target) for target in document["targets"]]
    except Exception as error:  # a broken matrix must not hide `nox -s lint`; the commands say what is wrong
        print(f"noxfile: no build sessions: {MATRIX}: {error}")
        return []


def _install(session: nox.Session, *groups: str) -> None:
    arguments = [argument for group in groups for argument in ("--group", group)]
    session.install("-q", "-e", ".", *arguments)


def _run(session: nox.Session, module: str, *arguments: str) -> None:
    """Run one of our modules with the matrix that named the sessions."""
    session.run("python", "-m", module, *arguments, env={"WHEEL_ASSAY_MATRIX": str(MATRIX)})


def _build(target: str) -> None:
    @nox.session(name=f"build-{target}")
    def build(session: nox.Session) -> None:
        _install(session)
        _run(session, "builders", "build", target, *session.posargs)

    build.__doc__ = f"Build the wheel of {target} at the pin."


for _target in _targets():
    _build(_target)


@nox.session(name="build-all")
def build_all(session: nox.Session) -> None:
    """Build targets (default: all) side by side over the engine hosts of matrix.local.yaml."""
    _install(session)
    _run(session, "builders", "build-all", *session.posargs)


@nox.session
def qualify(session: nox.Session) -> None:
    """Judge wheels: the pin's released wheel for every target, or those given after `--`."""
    _install(session)
    if session.posargs:
        _run(session, "qualify", "check", *session.posargs)
    else:
        _run(session, "qualify", "check", "--pin", "--profile", "upstream")


@nox.session
def plan(session: nox.Session) -> None:
    """Print what a build of TARGET would be made from, and its holes."""
    _install(session)
    _run(session, "builders", "plan", *session.posargs)


@nox.session
def fetch(session: nox.Session) -> None:
    """Fill the store for TARGET… (default: all): external sources and crates, so that builds need no network."""
    _install(session)
    _run(session, "builders", "fetch", *(session.posargs or ["--all"]))


@nox.session
def lock(session: nox.Session) -> None:
    """Resolve the build requirements of TARGET and lock them, each by its sha256."""
    _install(session)
    _run(session, "builders", "lock", *session.posargs)


@nox.session
def doctor(session: nox.Session) -> None:
    """List every tool and requirement that a build takes: found, not on PATH, absent, wrong version."""
    _install(session)
    _run(session, "builders", "doctor", *session.posargs)


@nox.session
def bases(session: nox.Session) -> None:
    """Make or refresh the base images of the targets."""
    _install(session)
    _run(session, "builders", "base", *(session.posargs or ["--all"]))


@nox.session
def measure(session: nox.Session) -> None:
    """Measure the version strings that an install of a wheel really reports."""
    _install(session)
    _run(session, "builders", "measure", *session.posargs)


@nox.session
def record(session: nox.Session) -> None:
    """Write what a qualified wheel reports into `measured:` of the matrix."""
    _install(session)
    _run(session, "builders", "record", *session.posargs)


@nox.session
def publish(session: nox.Session) -> None:
    """Publish qualified wheels: `nox -s publish -- WHEEL… --to FOLDER`; without wheels, what was built here."""
    _install(session)
    arguments = list(session.posargs)
    if not any(argument.endswith(".whl") for argument in arguments):
        arguments = [str(wheel) for wheel in sorted(Path("wheels").glob("*/*.whl"))] + arguments
    _run(session, "qualify", "publish", *arguments)


@nox.session
def demo(session: nox.Session) -> None:
    """The whole line on the example: build, qualify, measure, record, publish, install; and three broken wheels."""
    _install(session)
    session.run("python", "-m", "builders", "demo", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, mypy strict and the floors of the house."""
    _install(session, "lint", "tests")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Unit and property tests, on every Python of this machine that the project supports."""
    _install(session, "tests")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs)


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """Unit tests with the lowest versions that pyproject.toml allows."""
    session.install("-q", "uv>=0.5")
    # Not session.create_tmp(): it moves every temporary file of the tests into the checkout.
    requirements = Path(session.virtualenv.location) / "lowest.txt"
    session.run(
        *("uv", "pip", "compile", "-q", "--resolution", "lowest-direct", "--python-version", "3.11"),
        *("pyproject.toml", "--group", "tests", "-o", str(requirements)),
    )
    session.install("-q", "-r", str(requirements))
    session.install("-q", "--no-deps", "-e", ".")
    session.run("python", "-m", "pytest", "-n", "2", "tests/unit", *session.posargs)


@nox.session
def integration(session: nox.Session) -> None:
    """Tests with the real Docker engine, real wheels and real toolchains."""
    _install(session, "tests")
    session.run("python", "-m", "pytest", "--durations=15", "tests/integration", *session.posargs)


@nox.session
def differential(session: nox.Session) -> None:
    """What we read of eight real wheels against cuobjdump, cubloaty, readelf, auditwheel and abi3audit."""
    _install(session, "tests", "peers")
    session.run("python", "-m", "tools.differential", *session.posargs)
    if not session.posargs:
        whole = {"WHEEL_ASSAY_WHOLE": "1"}
        session.run("python", "-m", "pytest", "tests/integration/test_cuobjdump.py", env=whole)
        session.run("python", "-m", "tools.second_opinion", "vllm==0.33.0")


@nox.session
def mutants(session: nox.Session) -> None:
    """Print what every check makes of wheels that are one fault away from a good one, and of near misses."""
    _install(session, "tests")
    session.run("python", "-m", "tests.mutants")


@nox.session(python="3.13")
def fuzz(session: nox.Session) -> None:
    """Readers and judge against faulty files, guided by coverage, for `--minutes N` (default 14)."""
    _install(session, "tests", "fuzz")
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session(name="arch-table")
def arch_table(session: nox.Session) -> None:
    """Derive from ptxas, oldest to newest toolkit, which PTX reaches which GPU, and hold the rules against it."""
    _install(session)
    session.run("python", "-m", "tools.arch_table", *session.posargs)


@nox.session(name="device-table")
def device_table(session: nox.Session) -> None:
    """Make every form of a kernel (`make FOLDER`), or hold what a GPU loaded against the rules (`compare TABLE`)."""
    _install(session)
    session.run("python", "-m", "tools.device_table", *(session.posargs or ["compare", "tests/data/h200.json"]))


@nox.session
def bench(session: nox.Session) -> None:
    """Inspecting and judging beside a floor and beside today's tools; `-- --big` for a wheel of 2 GB."""
    _install(session, "peers")
    session.run("python", "benchmarks/bench.py", *session.posargs)


@nox.session(name="bench-verify")
def bench_verify(session: nox.Session) -> None:
    """`qualify verify` beside one sha256 of the same bytes: `-- WHEEL --target ID`."""
    _install(session)
    session.run("python", "benchmarks/verify_bench.py", *session.posargs)


@nox.session(name="bench-build")
def bench_build(session: nox.Session) -> None:
    """What the builders add to a compile, and what a warm cache saves: `-- torchsort`, `axpy`, `preflight`."""
    _install(session)
    session.run("python", "benchmarks/build_bench.py", *session.posargs)


@nox.session
def refresh(session: nox.Session) -> None:
    """Write the data that checks go by anew: auditwheel's policies, CPython's stable ABI, torch's stable interface."""
    session.install("-q", "--upgrade", "auditwheel", "abi3info", "requests", "packaging", "pip", "unearth")
    _install(session)
    for name in session.posargs or ["manylinux", "abi3", "torch_stable"]:
        session.run("python", "-m", f"tools.refresh_{name}")


@nox.session
def generate(session: nox.Session) -> None:
    """Write the generated files again: JSON schemas and docs/checks.md."""
    _install(session)
    session.run("python", "-m", "qualify.matrix.schema", "docs/schema")
    session.run("python", "-m", "qualify.factsschema", "docs/schema")
    session.run("python", "-m", "qualify.diffing.json", "docs/schema")
    session.run("python", "-m", "qualify.evidenceschema", "docs/schema")
    session.run("python", "-m", "builders.receipts.schema", "docs/schema")
    with (HERE / "docs" / "checks.md").open("w", encoding="utf-8") as page:
        session.run("python", "-m", "qualify", "explain", "--markdown", stdout=page)


if __name__ == "__main__":
    if shutil.which("git") is None:
        raise SystemExit("git is not on PATH: the build sessions need it")
    nox.main()
