"""A published folder as its users meet it: real pip, a plain HTTP server, several publishers, a full disk."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from qualify import matrix
from tests.support.line import TARGETS, qualified, write_matrix
from tests.support.store import listed, sha256, torn, tree
from tests.support.wheel import COMMIT

ROOT = Path(__file__).parents[2]
SM110, SM121, SM90 = "aarch64-sm110", "aarch64-sm121", "x86_64-sm90"
ENVIRONMENT = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def qualify(*arguments: str | Path, expected: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qualify", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stderr
    assert "Traceback" not in done.stderr
    return done


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", *map(str, arguments)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three targets at two versions, one of them with a local part, published by the command."""
    folder = tmp_path_factory.mktemp("line")
    path = write_matrix(folder)
    wheels = [
        qualified(folder / str(number), path, target, version).wheel
        for number, version in enumerate(("0.1.0", "0.2.0+cu130"))
        for target in TARGETS
    ]
    qualify("publish", *wheels, "--to", folder / "to", "--matrix", path)
    assert torn(folder / "to") == []
    return folder / "to"


class _Handler(http.server.SimpleHTTPRequestHandler):
    seen: list[str] = []  # noqa: RUF012  (one list for all requests of a test)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        self.seen.append(self.path)


@pytest.fixture
def served(store: Path) -> Iterator[str]:
    """The folder under a path of a plain HTTP server on loopback."""
    _Handler.seen.clear()
    handler = functools.partial(_Handler, directory=str(store.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/{store.name}"
        server.shutdown()
        thread.join()


def download(index: str, requirement: str, target: str, into: Path) -> Path:
    """Have pip download for another platform, by hash where the requirement names one."""
    requirements = into.parent / f"{into.name}.txt"
    requirements.write_text(requirement + "\n")
    platform = f"manylinux_2_28_{target.partition('-')[0]}"
    options = ["--no-deps", "--only-binary=:all:", f"--platform={platform}", "--python-version=3.11"]
    options += ["--implementation=cp", "--abi=abi3", "--no-cache-dir", f"--index-url={index}/", "--dest", str(into)]
    options += ["--require-hashes"] if "--hash" in requirement else []
    pip("download", *options, "-r", requirements)
    (wheel,) = into.iterdir()
    return wheel


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("version", ["0.1.0", "0.2.0+cu130"])
def test_pip_takes_each_targets_bytes_from_its_own_index(
    store: Path, served: str, tmp_path: Path, target: str, version: str
) -> None:
    expected = {name: digest for name, digest in listed(store, target).items() if f"-{version}-" in name}
    ((name, digest),) = expected.items()
    requirement = f"axpy=={version} --hash=sha256:{digest}"
    for kind, base in (("file", store.as_uri()), ("http", served)):
        wheel = download(f"{base}/{target}/simple", requirement, target, tmp_path / kind)
        assert (wheel.name, sha256(wheel)) == (name, digest)


def test_pip_reads_the_metadata_beside_the_wheel_and_only_then_the_wheel(
    store: Path, served: str, tmp_path: Path
) -> None:
    pip("install", "--no-cache-dir", "--dry-run", f"--index-url={served}/{SM90}/simple/", "--target", tmp_path, "axpy")
    metadata = [path for path in _Handler.seen if path.endswith(".whl.metadata")]
    assert len(metadata) == 1
    assert "%2B" in metadata[0]


def test_one_folder_serves_both_aarch64_targets_and_the_combined_index_leaves_their_name_out(store: Path) -> None:
    first, second = listed(store, SM110), listed(store, SM121)
    assert first.keys() == second.keys()
    assert not set(first.values()) & set(second.values())
    assert listed(store, "") == listed(store, SM90)


def test_a_wheel_is_installed_from_the_index_measured_and_found_at_the_pin(store: Path, tmp_path: Path) -> None:
    pip(
        "install",
        "--no-cache-dir",
        f"--index-url={store.as_uri()}/simple/",
        "--target",
        tmp_path / "site",
        "axpy==0.1.0",
    )
    code = "import axpy, axpy._version as v; print(axpy.__version__, v.__commit_id__)"
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0.1.0", COMMIT]


def test_four_publishers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    wheels = [
        [qualified(tmp_path / version, path, target, version).wheel for target in TARGETS]
        for version in ("0.1.0", "0.2.0", "0.3.0", "0.3.0+cu130")
    ]
    command = [sys.executable, "-m", "qualify", "publish", "--to", str(tmp_path / "to"), "--matrix", str(path)]
    # Each brings wheels of its own, and all bring one that the others bring as well.
    running = [
        subprocess.Popen(
            [*command, *map(str, {*own, wheels[0][0]})], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for own in wheels
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    assert torn(tmp_path / "to") == []
    for index, target in enumerate(TARGETS):
        digests = {sha256(own[index]) for own in wheels}
        assert set(listed(tmp_path / "to", target).values()) == digests
    before = tree(tmp_path / "to")
    qualify("publish", *(wheel for own in wheels for wheel in own), "--to", tmp_path / "to", "--matrix", path)
    assert tree(tmp_path / "to") == before
    assert not [name for name in before if name.startswith(".")]


def test_three_recorders_at_once_lose_nothing(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    wheels = {target: qualified(tmp_path, path, target).wheel for target in TARGETS}
    command = [sys.executable, "-m", "qualify", "record", "--matrix", str(path), "--target"]
    running = [
        subprocess.Popen([*command, target, str(wheel)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for target, wheel in wheels.items()
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    measured = matrix.load(path).matrix.measured
    assert {target: entry.sha256 for target, entry in measured.items()} == {
        target: sha256(wheel) for target, wheel in wheels.items()
    }


FULL = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv = ["qualify", *sys.argv[2:]]
runpy.run_module("qualify", run_name="__main__")
"""


@pytest.mark.parametrize("limit", [0, 1000])
def test_where_nothing_more_can_be_written_nothing_is_half_written(tmp_path: Path, limit: int) -> None:
    path = write_matrix(tmp_path)
    wheels = [qualified(tmp_path, path, target).wheel for target in TARGETS]
    arguments = ["publish", *map(str, wheels), "--to", str(tmp_path / "to"), "--matrix", str(path)]
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(limit), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert torn(tmp_path / "to") == []
    assert not list((tmp_path / "to").rglob("*.wa-tmp"))
    before = path.read_bytes()
    record = ["record", str(wheels[0]), "--target", SM90, "--matrix", str(path)]
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(limit // 10), *record], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert path.read_bytes() == before
    qualify(*arguments)
    assert {index: len(listed(tmp_path / "to", index)) for index in TARGETS} == dict.fromkeys(TARGETS, 1)


SMALL_DISK = """
set -e
mount -t tmpfs -o size={size}k tmpfs {to}
set +e
{python} -m qualify publish {wheels} --to {to} --matrix {matrix}; echo "code $?"
{python} -c "from pathlib import Path; from tests.support.store import torn; print('torn', torn(Path('{to}')))"
find {to} -name '*.wa-tmp' -o -name '.*.lock'
mount -o remount,size=4m {to}
{python} -m qualify publish {wheels} --to {to} --matrix {matrix}; echo "code $?"
{python} -c "from pathlib import Path; from tests.support.store import torn; print('torn', torn(Path('{to}')))"
"""


def _own_mounts() -> list[str]:
    """The command that gives a child mounts of its own: as root, else as root of a user namespace."""
    for command in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        if (
            subprocess.run([*command, "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True, check=False).returncode
            == 0
        ):
            return command
    pytest.skip("this host lets nobody mount a small disk; the limit on file sizes above stands in for it")


@pytest.mark.parametrize("size", [4, 40])
def test_a_full_disk_leaves_whole_files_and_more_room_ends_it(tmp_path: Path, size: int) -> None:
    own_mounts = _own_mounts()
    path = write_matrix(tmp_path)
    wheels = [qualified(tmp_path, path, target).wheel for target in TARGETS]
    (tmp_path / "to").mkdir()
    script = SMALL_DISK.format(
        size=size, to=tmp_path / "to", python=sys.executable, matrix=path, wheels=" ".join(map(str, wheels))
    )
    done = subprocess.run([*own_mounts, "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "No space left on device" in done.stderr, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stdout.split("\n") if line and "axpy" not in line and "pip install" not in line]
    assert lines == ["code 4", "torn []", "code 0", "torn []"]


def test_a_typed_evidence_helps_nobody(tmp_path: Path) -> None:
    path = write_matrix(tmp_path)
    made = qualified(tmp_path, path, SM90)
    content = json.loads(made.path.read_bytes())
    made.wheel.write_bytes(made.wheel.read_bytes() + b"\0")
    sha256 = hashlib.sha256(made.wheel.read_bytes()).hexdigest()
    content["subject"][0]["digest"]["sha256"] = content["predicate"]["report"]["sha256"] = sha256
    content["predicate"]["size"] += 1
    made.path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    done = qualify("publish", made.wheel, "--to", tmp_path / "to", "--matrix", path, expected=6)
    assert "judging again" in done.stderr
    assert not (tmp_path / "to").exists()
