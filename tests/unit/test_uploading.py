"""The index publisher against a server that fails in every way that a server can."""

from __future__ import annotations

import dataclasses
import json
import logging
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qualify import evidence, matrix
from qualify.errors import AssayError, RefusedError, UnavailableError, UnverifiedError, UsageError
from qualify.publishers import Published, destination, readback, uploadrules
from qualify.publishers.upload import Patience, Uploader
from tests.support.line import axpy, judged, qualified, write_matrix
from tests.support.uploadserver import DROP_HALF, DROP_STORED, KILL_HALF, KILL_STORED, LATE, STORED_503, Server, faulty

TOKEN = "pypi-S3cr3t/T0ken"
QUICK = Patience(first_wait=0.01, settle=0.05, listed=0.2, step=0.02)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("TWINE_USERNAME", "__token__")
    monkeypatch.setenv("TWINE_PASSWORD", TOKEN)
    monkeypatch.setenv("HOME", str(tmp_path))
    with faulty(tmp_path / "server") as running:
        yield running


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installers are left out where a test is about what happens before them."""
    monkeypatch.setattr(readback, "require_same_bytes", lambda *_: None)


@pytest.fixture
def prove(tmp_path: Path) -> Callable[..., evidence.Evidence]:
    path = write_matrix(tmp_path)

    def one(
        target: str = "x86_64-sm90", version: str = "0.1.0", files: dict[str, str] | None = None, **options: object
    ):  # type: ignore[no-untyped-def]
        if files is None and not options:
            made = qualified(tmp_path / version, path, target, version)
        else:
            made = judged(axpy(tmp_path / "other", target, version, files=files, **options), target, path)
        return evidence.prove(evidence.load(made.path), made.wheel, matrix.load(path))

    return one


Prove = Callable[..., evidence.Evidence]


def upload(server: Server, *proofs: evidence.Evidence, **options: object) -> tuple[Published, ...]:
    with Uploader(destination.resolve(server.url, **options), QUICK) as uploader:  # type: ignore[arg-type]
        return uploader.upload(uploader.plan(proofs))


def refused(kind: type[AssayError], server: Server, *proofs: evidence.Evidence, **options: object) -> str:
    with pytest.raises(kind) as caught:
        upload(server, *proofs, **options)
    told = "".join(traceback.format_exception(caught.value)) + str(caught.value)
    assert TOKEN not in told
    return str(caught.value)


def test_a_set_is_uploaded_and_pip_and_uv_take_those_bytes(server: Server, prove: Prove) -> None:
    proofs = [prove(), prove("aarch64-sm121"), prove(version="0.2.0+cu130")]
    done = upload(server, *proofs)
    assert [(row.filename, row.sha256, row.new) for row in done] == [(p.wheel.name, p.sha256, True) for p in proofs]
    assert server.uploads == [proof.wheel.name for proof in proofs]
    again = upload(server, *proofs)
    assert [row.new for row in again] == [False] * 3
    assert len(server.uploads) == 3


def test_one_wheel_of_two_targets_is_sent_once(server: Server, prove: Prove, tmp_path: Path, unread: None) -> None:
    extensions = {"axpy/_C": {"sm_110": ["axpy_kernel"], "sm_121": ["axpy_kernel"]}, "axpy/_host": {}}
    first = prove("aarch64-sm110", extensions=extensions)
    judged(first.wheel, "aarch64-sm121", tmp_path / "matrix.yaml")
    documents = [
        evidence.load(evidence.path_for(first.wheel, target)) for target in evidence.targets_beside(first.wheel)
    ]
    done = upload(server, *evidence.prove_each(documents, first.wheel, matrix.load(tmp_path / "matrix.yaml")))
    assert [row.target for row in done] == ["aarch64-sm110", "aarch64-sm121"]
    assert server.uploads == [first.wheel.name]


@pytest.mark.parametrize("fault", [DROP_STORED, STORED_503])
def test_what_was_stored_before_the_answer_was_lost_is_not_sent_again(
    server: Server, prove: Prove, fault: str, unread: None
) -> None:
    server.faults = [fault]
    upload(server, prove())
    assert len(server.uploads) == 1


@pytest.mark.parametrize("fault", [DROP_HALF, 500, 503, 429])
def test_what_failed_is_sent_again_until_it_is_there(
    server: Server, prove: Prove, fault: int | str, unread: None
) -> None:
    server.faults = [fault, fault]
    upload(server, prove())
    assert len(server.uploads) == 1


def test_a_second_try_that_is_told_that_the_file_exists_is_looked_after(
    server: Server, prove: Prove, unread: None
) -> None:
    """The first try was stored, and the index said so only after the second was sent."""
    server.faults = [DROP_STORED]
    proof = prove()
    server.hidden_reads = 1 + 4  # the plan's, and those after the first try
    upload(server, proof)
    assert server.uploads in ([proof.wheel.name], [proof.wheel.name] * 2)


@pytest.mark.parametrize(
    ("status", "action"),
    [(400, "mend what"), (401, "TWINE_PASS"), (403, "may upload"), (409, "new version"), (302, "name the address")],
)
def test_a_refusal_ends_it_and_says_what_is_stored(
    server: Server, prove: Prove, status: int, action: str, unread: None
) -> None:
    first, second = prove(), prove(version="0.2.0")
    server.faults = ["", status]
    server.words = f"denied for {TOKEN}\x1b[2J"
    told = refused(RefusedError, server, first, second)
    assert f"the server refuses it: {status}" in told
    assert action in told
    assert f"Stored: {first.wheel.name}" in told
    assert "\x1b" not in told
    upload(server, first, second)
    assert server.uploads == [first.wheel.name, second.wheel.name]


def test_a_server_that_fails_for_good_is_left_alone(server: Server, prove: Prove, unread: None) -> None:
    server.faults = [503] * 9
    told = refused(UnavailableError, server, prove())
    assert "fails 4 times: 503" in told
    assert "Nothing of the set is stored" in told
    assert len(server.faults) == 5


def test_a_file_that_is_listed_late_is_waited_for(server: Server, prove: Prove, unread: None) -> None:
    server.faults = [LATE]
    upload(server, prove())
    assert len(server.uploads) == 1


def test_a_file_that_is_never_listed_is_told(server: Server, prove: Prove, unread: None) -> None:
    proof = prove()
    server.hidden_reads = 1 << 30
    assert "doesn't list it" in refused(UnverifiedError, server, proof)


@pytest.mark.parametrize("hashes", [True, False])
def test_other_bytes_under_the_name_are_refused_before_anything_is_sent(
    server: Server, prove: Prove, hashes: bool, unread: None
) -> None:
    server.hashes = hashes
    upload(server, prove())
    fine = prove(version="0.2.0")
    assert "other bytes are published" in refused(RefusedError, server, fine, prove(files={"axpy/x.py": "x = 1\n"}))
    assert len(server.uploads) == 1


def test_an_index_that_does_not_answer_is_not_an_empty_one(server: Server, prove: Prove) -> None:
    for status in (404, 500):
        server.read_status = status
        assert f"answers there: {status}" in refused(UnavailableError, server, prove())
    assert server.uploads == []


def test_a_server_that_takes_no_such_size_says_so_before_a_byte_is_sent(server: Server, prove: Prove) -> None:
    server.limit = 10
    proof = prove()
    assert "takes no file of" in refused(RefusedError, server, proof)
    assert server.expects == [proof.facts.size]
    assert server.uploads == []


@pytest.mark.parametrize(
    ("options", "version", "reason"),
    [
        ({"rules": "public"}, "0.2.0+cu130", "takes no local version (+cu130)"),
        ({"size_limit": 100}, "0.2.0", "takes no file above 100 bytes"),
    ],
)
def test_what_the_rules_exclude_is_refused_with_the_whole_set(
    server: Server, prove: Prove, options: dict[str, object], version: str, reason: str
) -> None:
    assert reason in refused(RefusedError, server, prove(), prove(version=version), **options)
    assert server.uploads == server.expects == []


def test_a_near_miss_of_the_public_rules_is_taken(server: Server, prove: Prove, unread: None) -> None:
    upload(server, prove(), rules="public")
    assert len(server.uploads) == 1


def test_what_only_some_servers_take_is_told_all_at_once(server: Server, prove: Prove) -> None:
    strict = destination.Rules(local_versions=False, platforms=("any", "musllinux_*"), size_limit=1)
    to = dataclasses.replace(destination.resolve(server.url), rules=strict)
    with Uploader(to, QUICK) as uploader, pytest.raises(RefusedError) as caught:
        uploader.plan([prove(version="0.2.0+cu130")])
    for reason in ("no local version (+cu130)", "no tag manylinux_2_28_x86_64", "no file above 1 bytes"):
        assert reason in caught.value.what
    assert server.uploads == server.expects == []


def test_requirements_with_an_address_are_found() -> None:
    asked = ("torch @ https://example.org/torch.whl", "numpy>=1", "not a requirement !")
    assert uploadrules.with_address(asked) == ["torch"]


def test_a_wheel_that_changed_after_its_proof_is_refused(server: Server, prove: Prove) -> None:
    proof, other = prove(), prove(files={"axpy/x.py": "x = 1\n"})
    proof.wheel.write_bytes(other.wheel.read_bytes())
    assert "the file changed since it was judged" in refused(RefusedError, server, proof)


def test_two_of_one_name_are_refused(server: Server, prove: Prove) -> None:
    assert "one name and different bytes" in refused(
        RefusedError, server, prove("aarch64-sm110"), prove("aarch64-sm121")
    )


def test_an_index_that_gives_other_bytes_is_told(server: Server, prove: Prove, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says one sha256 and the file is another: installers refuse it, and so do we."""
    proof, other = prove(), prove(files={"axpy/x.py": "x = 1\n"})
    server.hashes = False
    (server.folder / proof.wheel.name).write_bytes(other.wheel.read_bytes())
    monkeypatch.setattr(Uploader, "_has", lambda *_: True)
    assert "pip installs sha256" in refused(UnverifiedError, server, proof)


def test_the_token_goes_to_the_server_and_nowhere_else(
    server: Server,
    prove: Prove,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with faulty(tmp_path / "server2") as mirror:
        mirror.folder.rmdir()
        mirror.folder.symlink_to(server.folder)
        index = f"http://127.0.0.1:{mirror.server_address[1]}/simple/"
        server.faults = [503]
        upload(server, prove(), index=index)
        assert {seen for kind, seen in mirror.authorizations} == {""}
    assert all(seen.startswith("Basic ") for kind, seen in server.authorizations if kind == "POST")
    said = capfd.readouterr()
    assert said.out == ""
    assert TOKEN not in said.err + caplog.text
    with Uploader(destination.resolve(server.url), QUICK) as uploader:
        assert TOKEN not in repr(vars(uploader)) + repr(uploader.destination)


@pytest.mark.parametrize("variable", ["TWINE_PASSWORD", "TWINE_USERNAME"])
def test_no_account_is_told_and_nothing_is_asked(
    server: Server, prove: Prove, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv(variable)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    assert "no account to upload with" in refused(UnavailableError, server, prove())


def test_an_address_with_an_account_is_never_shown(
    tmp_path: Path, prove: Prove, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TWINE_USERNAME", "TWINE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    address = f"http://someone:{'pa55word'}@127.0.0.1:9/legacy/"
    found = destination.resolve(address)
    assert "pa55word" not in repr(found) + found.shown
    with pytest.raises(UnavailableError) as caught, Uploader(found, QUICK) as uploader:
        uploader.plan([prove()])
    assert "pa55word" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        ("nowhere", "Missing 'nowhere' section"),
        ("http://example.org/legacy/", "the token would travel unencrypted"),
        ("ftp://example.org/", "Invalid repository URL"),
    ],
)
def test_a_destination_that_is_none_is_told(
    to: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match=reason):
        destination.resolve(to)


def test_the_servers_that_twine_knows_have_the_public_rules_and_their_own_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("pypi", "testpypi"):
        found = destination.resolve(name)
        assert found.rules == destination.PUBLIC
        assert found.index.endswith("/simple/")
        assert found.shown == name
    assert destination.resolve("testpypi", size_limit=1 << 30).rules.size_limit == 1 << 30
    assert destination.resolve("https://example.org/up/").rules == destination.Rules()
    assert destination.resolve("https://example.org/up/").index == "https://example.org/up/simple/"


def command(server: Server, wheels: list[Path], *options: str) -> list[str]:
    matrix_path = server.folder.parent / "matrix.yaml"
    base = [sys.executable, "-m", "qualify", "upload", "--matrix", str(matrix_path), "--to", server.url]
    return [*base, *options, *map(str, wheels)]


@pytest.mark.parametrize("fault", [KILL_HALF, KILL_STORED])
@pytest.mark.parametrize("before", [0, 1])
def test_killed_half_way_the_same_command_sends_what_is_missing(
    server: Server, prove: Prove, fault: str, before: int
) -> None:
    wheels = [prove(version=version).wheel for version in ("0.1.0", "0.2.0")]
    server.faults = ["" for _ in range(before)] + [fault]
    with subprocess.Popen(command(server, wheels, "--apply"), stderr=subprocess.PIPE) as running:
        server.kill = running.kill
        running.communicate(timeout=120)
    assert running.returncode == -9
    subprocess.run(command(server, wheels, "--apply"), check=True, capture_output=True)
    assert server.uploads == [wheel.name for wheel in wheels]


def test_the_command_sends_nothing_until_it_is_told_to(server: Server, prove: Prove) -> None:
    wheel = prove().wheel
    for options, state, uploads in (((), "missing", 0), (("--apply",), "uploaded", 1), ((), "there", 1)):
        done = subprocess.run(command(server, [wheel], "--json", *options), check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["wheels"][0]["state"] == state
        assert len(server.uploads) == uploads
        assert TOKEN not in done.stdout + done.stderr
    done = subprocess.run(command(server, [wheel]), check=True, capture_output=True, text=True)
    assert done.stdout.startswith(f"{wheel.name} x86_64-sm90: is there already\n")


def test_the_command_takes_no_wheel_without_evidence(server: Server, tmp_path: Path) -> None:
    write_matrix(tmp_path)
    done = subprocess.run(command(server, [axpy(tmp_path)], "--apply"), check=False, capture_output=True, text=True)
    assert done.returncode == 6
    assert "no evidence beside the wheel" in done.stderr
    assert server.uploads == []
