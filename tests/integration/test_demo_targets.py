"""The example's three targets on the docker engine: each wheel fits its own target and no other.

Both aarch64 wheels are cross-compiled, published into one folder, and installed and imported under emulation.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from builders.demo import EXAMPLE
from qualify.matrix import load

pytestmark = [pytest.mark.docker, pytest.mark.network, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("x86_64-sm90", "aarch64-sm110", "aarch64-sm121")
AARCH64 = ("aarch64-sm110", "aarch64-sm121")


@dataclass(frozen=True, slots=True)
class Made:
    folder: Path
    wheels: dict[str, Path]  # target -> its wheel

    @property
    def matrix(self) -> Path:
        return self.folder / "matrix.yaml"

    def qualify(self, *arguments: str, code: int = 0) -> str:
        return tool("qualify", *arguments, "--matrix", str(self.matrix), code=code)


def tool(module: str, *arguments: str, code: int = 0) -> str:
    """Run one of our modules; its stdout."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("targets")
    for name in ("matrix.yaml", "axpy.bundle"):
        shutil.copy(EXAMPLE / name, folder)
    wheels = {}
    for target in TARGETS:
        where = ["--matrix", str(folder / "matrix.yaml"), "--out", str(folder / target)]
        printed = tool("builders", "build", target, "--engine", "docker", *where)
        wheels[target] = Path(printed.splitlines()[-1])
    return Made(folder, wheels)


def test_every_wheel_qualifies_for_its_own_target_and_for_no_other(made: Made) -> None:
    for target in TARGETS:
        for other in TARGETS:
            printed = made.qualify("check", str(made.wheels[target]), "--target", other, "--json", code=target != other)
            (result,) = json.loads(printed)["results"]
            errors = {finding["slug"] for finding in result["findings"] if finding["severity"] == "error"}
            if target == other:
                assert (result["verdict"], errors) == ("qualified", set())
                kernels = {row["member"]: row["native"] for row in result["coverage"]}
                assert kernels["axpy/_C.abi3.so"] == 4
            else:
                assert result["verdict"] == "rejected"
                assert "no-code-for-target" in errors
                assert ("other-machine" in errors) == (target.split("-")[0] != other.split("-")[0])


def test_a_receipt_says_what_was_asked_for_and_what_came_out(made: Made) -> None:
    for target, number in zip(TARGETS, ("90", "110", "121"), strict=True):
        wheel = made.wheels[target]
        receipt = json.loads(wheel.with_name(f"{wheel.name}.receipt.json").read_text(encoding="utf-8"))
        assert receipt["wheel"]["sha256"] == sha256(wheel)
        (row,) = receipt["architectures"]
        assert row["member"] == "axpy/_C.abi3.so"
        assert row["requested"] == [load(made.matrix).matrix.targets[target].arch_list]
        assert list(row["emitted"]) == [f"sm_{number} (cubin)"]
        assert {each["provenance"] for each in receipt["proof"]["members"]} == {"compiled here"}


def test_both_aarch64_targets_install_from_one_folder_each_from_its_own_index(made: Made, tmp_path: Path) -> None:
    wheels = [made.wheels[target] for target in AARCH64]
    for target, wheel in zip(AARCH64, wheels, strict=True):
        made.qualify("check", str(wheel), "--target", target, "--evidence")
    made.qualify("publish", *map(str, wheels), "--to", str(tmp_path / "index"))
    assert "sm110" in wheels[0].name.split("-")[1]
    for target, wheel in zip(AARCH64, wheels, strict=True):
        # What pip on such a machine would take; installing it there is what the measuring container does.
        platform = ["--only-binary", ":all:", "--python-version", "3.12", "--platform", "manylinux_2_34_aarch64"]
        index = (tmp_path / "index" / target / "simple").as_uri()
        pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "download", "--no-cache-dir"]
        command = [*pip, "--no-deps", *platform, "--index-url", index, "-d", str(tmp_path / target), "axpy"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        assert {path.name: sha256(path) for path in (tmp_path / target).iterdir()} == {wheel.name: sha256(wheel)}


@pytest.mark.parametrize("target", TARGETS)
def test_an_install_on_the_targets_machine_reports_the_pin(made: Made, target: str) -> None:
    where = ["--target", target, "--matrix", str(made.matrix), "--engine", "docker"]
    observed = json.loads(tool("builders", "measure", str(made.wheels[target]), *where, "--json"))
    loaded = load(made.matrix).matrix
    assert observed["how"] == "import"
    assert observed["machine"] == loaded.targets[target].machine
    assert observed["distribution_version"] == made.wheels[target].name.split("-")[1]
    # The label is of the distribution alone: the module says what was built.
    label = f".{loaded.targets[target].label}" if loaded.targets[target].label else ""
    assert observed["runtime_version"] == observed["distribution_version"].removesuffix(label)
    assert loaded.pin.commit.startswith(observed["commit"])
    assert observed["runtime_version"].endswith(f"+g{observed['commit']}")
