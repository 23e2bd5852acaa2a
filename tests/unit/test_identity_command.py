"""``qualify identity``: its answers and its exit codes, over version strings, wheels, matrices and environments."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from qualify.cli import main
from qualify.commands.identity import GRADES
from qualify.environments import identity_of_environment
from qualify.errors import UnavailableError, UsageError
from qualify.identity import Grade
from qualify.opening import read_wheel
from qualify.provenance import path_for
from qualify.served import identity_of_server
from tests.support.receipt import receipt_document
from tests.support.wheel import make_wheel, wheel_filename
from tests.unit.test_matrix_loader import ROOT
from tests.unit.test_matrix_refusals import GOOD

BUILT = "0.28.1rc1.dev132+ge126687a9"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("a", "b", "options", "code"),
    [
        (BUILT, BUILT, [], 0),
        (BUILT, f"{BUILT}.precompiled", [], 0),
        (f"{BUILT}.precompiled", f"{BUILT}.precompiled", [], 1),
        (f"{BUILT}.precompiled", BUILT, ["--accept-mode", "precompiled"], 0),
        (f"{BUILT}.cu129", BUILT, [], 1),
        (f"{BUILT}.cu129", BUILT, ["--accept-toolkit", "cu129"], 0),
        (f"{BUILT}.spark", BUILT, [], 1),
        (f"{BUILT}.spark", BUILT, ["--label", "spark"], 0),
        (f"{BUILT}.d20260904", BUILT, [], 1),
        ("0.1.dev1+g0000000", BUILT, [], 1),
        ("dev", BUILT, [], 3),
        ("0.33.0", "0.33.0", [], 3),
    ],
)
def test_exit_codes(a: str, b: str, options: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["identity", a, "--against", b, *options]) == code
    assert capsys.readouterr().err == ""


def test_the_answer_names_both_values_and_where_they_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    main(["identity", f"{BUILT}.precompiled", "--against", BUILT])
    assert capsys.readouterr().out == (
        "same commit, other build mode: one commit, built in two ways\n"
        "  build mode: precompiled (version string)\n"
        "  build mode: unstated (version string)\n"
        "refused: build mode precompiled isn't accepted (accepted: source, unstated)\n"
    )


def test_the_json_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["identity", "dev", "--against", str(ROOT / "matrix.yaml"), "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["version"], answer["result"], answer["accepted"]) == (1, "cannot tell", None)
    assert (answer["b"]["commit"], answer["b"]["origin"]) == ("4ba787ec9", "pin of matrix.yaml")
    assert answer["differences"][0] == {
        "field": "commit",
        "a": "",
        "a_origin": "version string",
        "b": "4ba787ec9",
        "b_origin": "pin.commit",
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matrix.yaml").write_text(GOOD, encoding="utf-8")
    return tmp_path


def test_a_wheel_against_the_pin(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / wheel_filename()).write_bytes(make_wheel())
    assert main(["identity", wheel_filename(), "--against", "matrix.yaml"]) == 0
    assert capsys.readouterr().out == (
        f"same: both are commit {COMMIT}\naccepted: commit {COMMIT}, build mode unstated\n"
    )


def test_a_receipt_beside_a_wheel_says_how_it_was_built(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / wheel_filename()).write_bytes(make_wheel())
    facts = read_wheel(folder / wheel_filename())
    path_for(folder / wheel_filename()).write_text(json.dumps(receipt_document(facts)))
    assert main(["identity", wheel_filename(), "--against", "matrix.yaml"]) == 0
    assert capsys.readouterr().out.endswith("build mode source\n")


@contextmanager
def served(status: int, body: bytes, stall: float = 0.0) -> Iterator[str]:
    """A server on loopback that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/version" else 404)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            over.wait(stall)
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    over = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_says_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with served(200, json.dumps({"version": BUILT}).encode()) as url:
        assert main(["identity", url, "--against", f"{BUILT}.precompiled"]) == 0
        assert main(["identity", f"{url}/version", "--against", BUILT, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
        assert (answer["a"]["grade"], answer["a"]["origin"]) == ("self-reported", f"{url}/version")
        assert main(["identity", url, "--against", BUILT, "--at-least", "import"]) == 3
        assert capsys.readouterr().out.endswith(
            "not decided: A was learned by self-reported, and import is asked at least\n"
        )


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (404, b"{}", "status 404"),
        (302, b"", "status 302"),
        (200, b"<html>0.33.0</html>", "the body is no {"),
        (200, b'{"version": 5}', "the version is no text"),
        (200, b'{"version": "' + b"1" * 300 + b'"}', "the version is no text"),
        (200, b" " * (70 << 10), "more than 64 KiB"),
        (200, b'{"version": "dev"}', '"dev" is no PEP 440 version'),
    ],
)
def test_an_answer_that_states_no_version(
    status: int, body: bytes, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(status, body) as url:
        assert main(["identity", url, "--against", BUILT]) == 3
    assert why in capsys.readouterr().out


def test_a_server_that_is_not_there_and_one_that_never_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with served(200, b"") as url:
        pass
    assert main(["identity", url, "--against", BUILT]) == 4
    assert capsys.readouterr().err.startswith(f"error: {url}: no answer: ")
    with served(200, b"", stall=30) as url, pytest.raises(UnavailableError, match="no answer: "):
        identity_of_server(url, seconds=0.3)


@pytest.mark.parametrize("url", ["http://", "https://u:p@host", "http://host:port", "http://host/?a=b"])
def test_what_is_no_address_of_a_server(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["identity", url, "--against", BUILT]) == 2
    assert "no address" in capsys.readouterr().err


def test_the_block_of_a_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit = "e126687a9" + "0" * 31
    lines = [f"vllm_commit = {commit}", f"vllm_runtime_version = {BUILT}"]
    lines += [f"vllm_distribution_version = {BUILT}.precompiled", "flashinfer_version = 0.7.2"]
    (folder / "PIN.md").write_text("\n".join(["# Pin", "", *lines, ""]))
    assert main(["identity", BUILT, "--against", "PIN.md"]) == 0
    assert "precompiled (block of PIN.md)" in capsys.readouterr().out
    assert main(["identity", f"{BUILT}.precompiled", "--against", "PIN.md"]) == 1
    (folder / "PIN.md").write_text("\n".join(lines[:3]))
    assert main(["identity", BUILT, "--against", "PIN.md"]) == 2
    assert main(["identity", BUILT, "--against", "none.md"]) == 2
    assert "none.md: No such file or directory" in capsys.readouterr().err


def test_the_words_of_the_grades() -> None:
    assert tuple(grade.name.lower().replace("_", "-") for grade in Grade) == GRADES


def test_an_unknown_build_mode_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["identity", BUILT, "--against", BUILT, "--accept-mode", "sauce"]) == 2
    assert capsys.readouterr().err.startswith('error: --accept-mode: "sauce" is no build mode\n')


def test_a_folder_without_an_interpreter_is_a_version_string(folder: Path) -> None:
    (folder / "dev").mkdir()
    assert main(["identity", "dev", "--against", BUILT]) == 3


def environment(folder: Path, version: str, commit: str, direct_url: str = "") -> Path:
    """A virtual environment as far as anybody looks at it from outside."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to("nowhere")
    packages = folder / "lib" / "python3.12" / "site-packages"
    (packages / "axpy").mkdir(parents=True)
    (packages / "axpy" / "_version.py").write_text(
        f"__version__ = '{version.partition('.precompiled')[0]}'\n__commit_id__ = '{commit}'\n", encoding="utf-8"
    )
    # What would run as soon as an interpreter starts.
    (packages / "evil.pth").write_text("import os; os.abort()\n", encoding="utf-8")
    info = packages / f"axpy-{version.partition('+')[0]}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: Axpy\nVersion: {version}\n", encoding="utf-8")
    if direct_url:
        (info / "direct_url.json").write_text(direct_url, encoding="utf-8")
    (folder / "lib64").symlink_to("lib")
    return folder


def test_an_environment_by_its_folder_and_by_its_interpreter(folder: Path) -> None:
    place = environment(folder / "venv", "1.0+precompiled", f"g{COMMIT}")
    for text in (place, place / "bin" / "python"):
        found = identity_of_environment(text, "axpy")
        assert (found.text, found.commit, found.build_mode) == ("1.0+precompiled", COMMIT, "precompiled")
    assert main(["identity", str(place), "--against", "matrix.yaml"]) == 1
    assert main(["identity", str(place), "--against", "matrix.yaml", "--accept-mode", "precompiled"]) == 0


def test_an_editable_installation_says_so(folder: Path) -> None:
    url = '{"url": "file:///src", "dir_info": {"editable": true}}'
    assert identity_of_environment(environment(folder / "venv", "1.0", COMMIT, url), "axpy").build_mode == "editable"


def test_a_broken_direct_url_is_no_statement(folder: Path) -> None:
    for index, text in enumerate(("[", "[]", '{"dir_info": 1}')):
        place = environment(folder / f"venv{index}", "1.0", COMMIT, text)
        assert identity_of_environment(place, "axpy").build_mode == "unstated"


def test_an_environment_without_the_project_or_with_two_of_it(folder: Path) -> None:
    place = environment(folder / "venv", "1.0", COMMIT)
    with pytest.raises(UsageError, match="torch isn't installed; expected exactly one"):
        identity_of_environment(place, "torch")
    info = place / "lib" / "python3.12" / "site-packages" / "axpy-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: axpy\nVersion: 2.0\n", encoding="utf-8")
    with pytest.raises(UsageError, match="2 distributions of axpy are installed"):
        identity_of_environment(place, "axpy")
    with pytest.raises(UsageError, match="an environment holds many projects; name one with --project"):
        identity_of_environment(place, "")
    with pytest.raises(UsageError, match="no environment of Python 3"):
        identity_of_environment(folder, "axpy")


def test_metadata_that_names_no_version_names_none(folder: Path) -> None:
    place = environment(folder / "venv", "1.0", COMMIT)
    (metadata,) = place.glob("lib/python3.12/site-packages/*.dist-info/METADATA")
    metadata.write_text("Name: axpy\n", encoding="utf-8")
    (metadata.parent.parent / "nameless.dist-info").mkdir()
    (metadata.parent.parent / "nameless.dist-info" / "METADATA").write_text("Version: 1\n", encoding="utf-8")
    found = identity_of_environment(place, "axpy")
    assert (found.text, found.base, found.commit) == ("", "", COMMIT)
