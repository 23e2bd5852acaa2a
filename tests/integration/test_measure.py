"""Wheels that are really installed and imported on this host, good ones and ones that do as they please."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from qualify import matrix, measuring
from qualify.errors import UnavailableError
from qualify.measuring import Subject
from qualify.opening import read_wheel
from qualify.probes.local import LocalRunner
from tests.support.line import INIT, NOW, axpy, judged, write_matrix
from tests.support.wheel import COMMIT, write_wheel

ROOT = Path(__file__).parents[2]
SUBJECT = Subject("axpy", "axpy", "axpy/_version.py")
TARGET = "x86_64-sm90"
TAG = "py3-none-any"


def measure(wheel: Path, subject: Subject = SUBJECT, **options: Any) -> measuring.Observation:
    return measuring.install(wheel, read_wheel(wheel), subject, LocalRunner(), now=NOW, **options)


def made(folder: Path, init: str = INIT, **options: Any) -> Path:
    """A wheel of any platform, so that each test runs on every machine."""
    folder.mkdir(exist_ok=True)
    options.setdefault("files", {})["axpy/__init__.py"] = init
    return write_wheel(folder, tag=TAG, extensions={}, **options)


def test_a_wheel_is_installed_and_imported_in_a_fresh_environment(tmp_path: Path) -> None:
    seen = measure(made(tmp_path))
    assert (seen.conclusive, seen.how, seen.where) == (True, "import", "this host"), seen.reason
    assert (seen.runtime_version, seen.distribution_version) == ("0.1.0", "0.1.0")
    assert (seen.commit, seen.build_mode) == (COMMIT.removeprefix("g"), "unstated")
    assert seen.python == ".".join(map(str, sys.version_info[:3]))


def test_the_module_may_lie_in_the_data_folder(tmp_path: Path) -> None:
    files = {
        "axpy-0.1.0.data/purelib/axpy/__init__.py": INIT,
        "axpy-0.1.0.data/purelib/axpy/_version.py": f"__version__ = '0.1.0'\n__commit_id__ = '{COMMIT}'\n",
    }
    wheel = write_wheel(tmp_path, tag=TAG, extensions={}, files=files, omit=["axpy/__init__.py", "axpy/_version.py"])
    seen = measure(wheel)
    assert (seen.how, seen.runtime_version) == ("import", "0.1.0")
    assert "is not the wheel's file" not in seen.reason


def test_nothing_of_the_caller_reaches_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree/axpy").mkdir(parents=True)
    (tmp_path / "tree/axpy/__init__.py").write_text("__version__ = '6.6.6'\n")
    monkeypatch.chdir(tmp_path / "tree")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "tree"))
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    init = INIT + "import os\nassert not os.listdir('.'), os.getcwd()\nassert 'PYTHONPATH' not in os.environ\n"
    seen = measure(made(tmp_path, init))
    assert (seen.conclusive, seen.runtime_version) == (True, "0.1.0"), seen.reason
    assert not (tmp_path / "elsewhere").exists()


def test_an_import_that_finds_a_source_tree_is_inconclusive(tmp_path: Path) -> None:
    (tmp_path / "tree/axpy").mkdir(parents=True)
    (tmp_path / "tree/axpy/__init__.py").write_text("__version__ = '0.1.0'\n")
    wheel = write_wheel(
        tmp_path,
        tag=TAG,
        extensions={},
        files={"axpy.pth": f"{tmp_path}/tree\n"},
        omit=["axpy/__init__.py", "axpy/_version.py"],
    )
    seen = measure(wheel)
    assert not seen.conclusive
    assert f"{tmp_path}/tree/axpy/__init__.py" in seen.reason
    assert "a source tree or an editable install" in seen.reason
    command = [
        sys.executable,
        "-m",
        "qualify",
        "measure",
        str(wheel),
        "--local",
        "--matrix",
        str(write_matrix(tmp_path)),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr


def test_dependencies_come_from_the_folder_alone(tmp_path: Path) -> None:
    wheel = made(tmp_path, INIT + "import torch\n", requires=["torch==2.14.0"])
    with pytest.raises(UnavailableError, match="No matching distribution found for torch"):
        measure(wheel)
    alone = measure(wheel, dependencies=False)
    assert alone.conclusive
    assert "version module (import without dependencies failed: ModuleNotFoundError" in alone.how
    (tmp_path / "links").mkdir()
    write_wheel(tmp_path / "links", name="torch", version="2.14.0", tag=TAG, extensions={})
    whole = measure(wheel, find_links=[tmp_path / "links"])
    assert (whole.how, whole.torch, whole.companions_origin) == ("import", "2.14.0", "as installed")


@pytest.mark.parametrize(
    ("init", "reason"),
    [
        ("raise SystemExit('no')", "the import failed: SystemExit: no"),
        ("import os; os._exit(0)", "the import failed: the import ended the process"),
        ("import os; os._exit(9)", "the import failed: the import ended with exit code 9"),
        ("import os; os.kill(os.getpid(), 11)", "the import failed: the import ended with signal SIGSEGV"),
        ("import time; time.sleep(60)", "the import failed: the import took longer than 5 s"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "the import failed: the import took longer than 5 s"),
        ("import sys; sys.modules[__name__] = type('M', (), {'__version__': '0.1.0'})", "'axpy' is not a package"),
        (INIT + "del __file__", "the imported module has no file"),
        (INIT + "__file__ = '/etc/passwd'", "/etc/passwd"),
        (INIT + "import os; __file__ = os.__file__", "outside the fresh environment"),
        ("__version__ = ['0.1.0']", "the module has no __version__"),
    ],
)
def test_a_module_that_does_as_it_pleases_proves_nothing_and_keeps_nobody(
    tmp_path: Path, init: str, reason: str
) -> None:
    start = time.monotonic()
    seen = measure(made(tmp_path, init + "\n"), import_timeout=5.0)
    assert not seen.conclusive
    assert reason in seen.reason
    assert time.monotonic() - start < 120


def test_what_an_import_starts_goes_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    child = "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
    child += f"open({str(mark)!r}, 'w').write(str(child.pid))\n"
    assert measure(made(tmp_path, INIT + child)).conclusive
    pid = int(mark.read_text())
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except FileNotFoundError:
            break
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        os.kill(pid, 9)
        pytest.fail("the child outlived the measurement")


def test_a_wheel_of_another_machine_is_not_installed(tmp_path: Path) -> None:
    other = "aarch64-sm121" if os.uname().machine == "x86_64" else TARGET
    with pytest.raises(UnavailableError, match="is not a supported wheel on this platform"):
        measure(axpy(tmp_path, other))


def test_an_interpreter_that_is_not_there_is_told(tmp_path: Path) -> None:
    wheel = made(tmp_path)
    with pytest.raises(UnavailableError, match="No such file"):
        measuring.install(wheel, read_wheel(wheel), SUBJECT, LocalRunner(str(tmp_path / "python")), now=NOW)
    with pytest.raises(UnavailableError, match="the probe failed"):
        measuring.install(wheel, read_wheel(wheel), SUBJECT, LocalRunner("/bin/false"), now=NOW)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the wheel is of x86_64")
def test_a_qualified_wheel_is_recorded_from_a_real_install(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    wheel = axpy(tmp_path / "w", TARGET)
    judged(wheel, TARGET, path)
    command = [sys.executable, "-m", "qualify", "record", str(wheel), "--target", TARGET, "--matrix", str(path)]
    done = subprocess.run([*command, "--local", "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["measured"]["how"] == "import, this host"
    before = path.read_bytes()
    assert matrix.load(path).matrix.measured[TARGET].how == "import, this host"
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, path.read_bytes()) == (0, before), done.stderr
    assert "recorded already" in done.stdout
