"""Private keys in files, trusted keys in files: made with care, and refused where they are wrong."""

from __future__ import annotations

import base64
import io
import json
import os
import stat
import subprocess
import sys
import types
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from qualify import keys, trust
from qualify.cli import main
from qualify.errors import AssayError, ConfigurationError, ExitCode, RefusedError, UnavailableError, UsageError
from qualify.trust import keyid_of

PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"  # RFC 8032, 7.1, test 2


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(keys.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "keyring", None)  # as if it were not installed


def secret_of(path: Path, passphrase: bytes | None = None) -> bytes:
    private = serialization.load_pem_private_key(path.read_bytes(), passphrase)
    assert isinstance(private, ed25519.Ed25519PrivateKey)
    return private.private_bytes_raw()


# -- private keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o777])
def test_a_key_is_its_owners_alone_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "k"
    before = os.umask(mask)
    try:
        made = keys.new(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (keys.load(path).keyid, keys.load(path).public) == (made.keyid, made.public)
    assert made.keyid == keyid_of(made.public)


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "k"
    keys.new(path)
    before = path.read_bytes()
    with pytest.raises(RefusedError, match="there is a file already"):
        keys.new(path)
    assert path.read_bytes() == before
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="there is a file already"):
        keys.new(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_that_is_full_leaves_no_half_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keys.os, "fsync", full)  # type: ignore[attr-defined]
    with pytest.raises(UnavailableError, match="No space left"):
        keys.new(tmp_path / "k")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_for_keys_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    keys.new(tmp_path / "keys" / "k")
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    with pytest.raises(RefusedError, match="there is a file already"):
        keys.new(tmp_path / "keys" / "k" / "under a file")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o666, 0o610, 0o601])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "k"
    keys.new(path)
    path.chmod(mode)
    with pytest.raises(RefusedError, match=r"others can read the private key .*; expected mode 0600; chmod 600"):
        keys.load(path)
    path.chmod(0o400)
    assert keys.load(path).keyid


def test_what_is_no_ed25519_key_is_refused_in_words_that_quote_none_of_it(tmp_path: Path) -> None:
    def written(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.touch(0o600)
        path.write_bytes(data)
        return path

    curve = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    keys.new(tmp_path / "k")
    half = (tmp_path / "k").read_bytes()[:60]
    public = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(PUBLIC)).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for name, data in {"text": b"hunter2", "half": half, "public": public, "big": b"x" * (65 << 10)}.items():
        with pytest.raises(UsageError, match="no private key that can be used") as caught:
            keys.load(written(name, data))
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None
    with pytest.raises(UsageError, match="a key of another kind"):
        keys.load(written("curve", curve.private_bytes(*form)))
    with pytest.raises(UsageError, match="no such key"):
        keys.load(tmp_path / "none")
    with pytest.raises(UsageError, match="no such key"):
        keys.load(tmp_path)


def test_a_passphrase_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k"
    monkeypatch.setenv(keys.VARIABLE, "correct horse")
    made = keys.new(path, keys.new_passphrase(path))
    assert b"ENCRYPTED" in path.read_bytes()
    assert keys.load(path).keyid == made.keyid
    monkeypatch.setenv(keys.VARIABLE, "wrong horse")
    with pytest.raises(RefusedError, match="the passphrase doesn't open it") as caught:
        keys.load(path)
    assert "horse" not in str(caught.value)
    monkeypatch.delenv(keys.VARIABLE)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for ask in (keys.load, keys.new_passphrase):
        with pytest.raises(UsageError, match="nobody to ask"):
            ask(path)


def test_a_passphrase_comes_from_the_keyring_by_the_keys_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k"
    asked: list[tuple[str, str]] = []

    def get_password(service: str, user: str) -> str | None:
        asked.append((service, user))
        return "of the keyring" if user == str(path) else None

    monkeypatch.setitem(sys.modules, "keyring", types.SimpleNamespace(get_password=get_password))
    made = keys.new(path, keys.new_passphrase(path))
    assert secret_of(path, b"of the keyring")
    assert keys.load(path).keyid == made.keyid
    assert asked == [("wheel-assay", str(path))] * 2
    # A keyring that fails is none: the next place is asked.
    monkeypatch.setitem(sys.modules, "keyring", types.SimpleNamespace(get_password=lambda *_: 1 / 0))
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(keys.getpass, "getpass", lambda prompt: "of the keyring")  # type: ignore[attr-defined]
    assert keys.load(path).keyid == made.keyid


def test_a_passphrase_is_typed_twice_for_a_new_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(isatty=lambda: True))
    for typed, right in ((["a", "a"], True), (["a", "b"], False), (["", ""], False)):
        answers = iter(typed)
        monkeypatch.setattr(keys.getpass, "getpass", lambda prompt, a=answers: next(a))  # type: ignore[attr-defined]
        if right:
            assert keys.new_passphrase(tmp_path / "k") == b"a"
        else:
            with pytest.raises(UsageError, match="no passphrase, or two different ones"):
                keys.new_passphrase(tmp_path / "k")


# -- the command -----------------------------------------------------------------------------------------------


def test_key_new_prints_the_public_half_and_never_the_other(tmp_path: Path) -> None:
    path, trusted = tmp_path / "builder.key", tmp_path / "trusted-keys.yaml"
    command = [
        sys.executable,
        "-m",
        "qualify",
        "key",
        "new",
        str(path),
        "--name",
        "lab builder",
        "--trust",
        str(trusted),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    secret, said = secret_of(path), done.stdout + done.stderr
    for form in (secret.hex(), base64.b64encode(secret).decode(), "PRIVATE KEY-----"):
        assert form not in said
    assert "".join(path.read_text().split("\n")[1:-2]) not in said
    (known,) = trust.load(trusted).keys.values()
    assert (known.id, known.public, known.name) == (keys.load(path).keyid, keys.load(path).public, "lab builder")
    assert (known.end - known.start).days == 366
    assert trust.with_entry(None, done.stdout.removeprefix("keys:\n"), "x") == trusted.read_bytes()


def test_key_show_says_the_same_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k"
    assert main(["key", "new", str(path), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert main(["key", "show", str(path), "--json", "--trust", str(tmp_path / "t.yaml")]) == 0
    assert json.loads(capsys.readouterr().out) == made
    assert list(trust.load(tmp_path / "t.yaml").keys) == [made["id"]]
    assert main(["key", "show", str(path), "--trust", str(tmp_path / "t.yaml")]) == ExitCode.USAGE
    assert "the key stands there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["new", "k", "--days", "0"], ExitCode.USAGE, "0 days"),
        (["new", "k", "--name", "a\nb"], ExitCode.USAGE, "not printable ASCII"),
        (["new", "k", "--trust", "wrong.yaml"], ExitCode.USAGE, "the key is unknown"),
        (["new", "k", "--trust", "flow.yaml"], ExitCode.USAGE, "no place at its end for one more key"),
        (["new", "k", "--trust", "."], ExitCode.USAGE, "this is a folder"),
        (["new", "there"], ExitCode.REFUSED, "there is a file already"),
        (["show", "k"], ExitCode.USAGE, "no such key"),
        (["new", "k", "--passphrase"], ExitCode.USAGE, "nobody to ask"),
        ([], ExitCode.USAGE, "ACTION"),
    ],
)
def test_misuse_makes_no_key(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: ExitCode,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    Path("wrong.yaml").write_text("version: 1\nkees: []\n")
    Path("flow.yaml").write_text("version: 1\nkeys: []\n")
    Path("there").write_text("mine")
    assert main(["key", *words]) == code
    assert said in capsys.readouterr().err
    assert not Path("k").exists()
    assert Path("there").read_text() == "mine"


# -- trusted keys ----------------------------------------------------------------------------------------------


def entry(**changes: object) -> str:
    values: dict[str, object] = {
        "id": keyid_of(PUBLIC),
        "public": PUBLIC,
        "name": "lab",
        "valid_from": "2026-01-01",
        "valid_until": "2026-12-31",
        "revoked": False,
    }
    values |= changes
    return "  - " + "\n    ".join(f"{name}: {json.dumps(value)}" for name, value in values.items()) + "\n"


def loaded(tmp_path: Path, text: str) -> trust.TrustedKeys:
    path = tmp_path / "trusted-keys.yaml"
    path.write_text(text)
    return trust.load(path)


def test_a_day_counts_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    (key,) = loaded(tmp_path, "version: 1\nkeys:\n" + entry()).keys.values()
    assert (key.start, key.end) == (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def test_nobody_is_trusted_where_no_key_is_named(tmp_path: Path) -> None:
    assert loaded(tmp_path, "version: 1\nkeys: []\n").keys == {}


WRONG = {
    "a key of another id": (entry(id="0" * 64), "keys[0].id: it is not the id of the public key, "),
    "a public key of another length": (entry(public="00"), "isn't 64 lower-case hex digits"),
    "capitals": (entry(public=PUBLIC.upper()), "write it in lower case"),
    "no such day": (entry(valid_until="2026-02-30"), '"2026-02-30" is no day'),
    "a day in other words": (entry(valid_until="tomorrow"), "isn't a day"),
    "the last day there is": (entry(valid_until="9999-12-31"), '"9999-12-31" is no day'),
    "an end before its beginning": (entry(valid_until="2025-12-31"), "it ends before it begins"),
    "a flag that is none": (entry(revoked="no"), "revoked"),
    "no name": (entry(name=""), "there is nothing in it"),
    "a name that moves the cursor": (entry(name="a\u202eb"), "not printable ASCII"),
    "a key that nobody knows": (entry(trusted=True), "the key is unknown"),
    "twice": (entry() + entry(), "keys[1].id: it stands twice"),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_entry_is_said_with_its_line(tmp_path: Path, name: str) -> None:
    text, words = WRONG[name]
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, "version: 1\nkeys:\n" + text)
    assert words in str(caught.value)
    assert "trusted-keys.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b"\xff", "isn't UTF-8"),
        (b"version: 2\nkeys: []\n", "version"),
        (b"keys: " + b"[" * 4000, "nested too deeply"),
        (b"#" * ((1 << 20) + 1), "larger than 1 MiB"),
        (b"keys: &a [*a]\n", ""),
        (b"version: &a 1\nkeys: &a []\n", "an anchor is named twice"),
    ],
)
def test_what_is_no_file_of_keys_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "t.yaml").write_bytes(data)
    with pytest.raises(AssayError) as caught:
        trust.load(tmp_path / "t.yaml")
    assert words in str(caught.value)


def test_a_folder_holds_files_of_keys_and_each_key_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="0 files of trusted keys"):
        trust.load(tmp_path)
    (tmp_path / "notes.txt").write_text("no keys")
    (tmp_path / "a.yaml").write_text("version: 1\nkeys:\n" + entry())
    assert list(trust.load(tmp_path).keys) == [keyid_of(PUBLIC)]
    (tmp_path / "b.yaml").write_text("version: 1\nkeys:\n" + entry(revoked=True))
    with pytest.raises(ConfigurationError, match=r"b\.yaml: key .* stands in another file of the folder too"):
        trust.load(tmp_path)


def test_where_trusted_keys_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(trust.VARIABLE, raising=False)
    matrix = tmp_path / "matrix.yaml"
    assert trust.find(None, matrix) is None
    (tmp_path / trust.FILE_NAME).write_text("version: 1\nkeys: []\n")
    assert trust.find(None, matrix) == tmp_path / trust.FILE_NAME
    monkeypatch.setenv(trust.VARIABLE, "/elsewhere")
    assert trust.find(None, matrix) == Path("/elsewhere")
    assert trust.find(Path("named"), matrix) == Path("named")


@pytest.mark.parametrize(
    "before",
    [
        "# ours\nversion: 1\n\nkeys:  # public\n" + entry() + "    # the end\n",
        "version: 1\nkeys:\n" + entry().rstrip("\n"),
        "version: 1\nkeys:\n",
    ],
)
def test_one_more_entry_leaves_every_byte_before_it(before: str) -> None:
    other = "00" * 32
    day = datetime(2026, 12, 1, tzinfo=UTC)
    added = trust.entry(keyid_of(other), other, "other", day, day)
    if before.endswith("keys:\n"):
        with pytest.raises(ConfigurationError):  # a file without one key is none to add to
            trust.with_entry(before.encode(), added, "x")
        return
    after = trust.with_entry(before.encode(), added, "x")
    assert after.startswith(before.encode())
    assert [key.name for key in trust.parse_file(after, "x").keys] == ["lab", "other"]


def test_an_entry_behind_something_else_is_added_by_hand() -> None:
    before = "keys:\n" + entry() + "version: 1\n"
    with pytest.raises(ConfigurationError, match="no place at its end"):
        trust.with_entry(before.encode(), entry(id=keyid_of("00" * 32), public="00" * 32), "x")
