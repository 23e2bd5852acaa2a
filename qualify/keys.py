"""Private keys: made, kept in a file that its owner alone can read, and never shown.

A key is Ed25519 in PKCS#8, PEM, in the clear or under a passphrase.  The passphrase comes from the environment, from
the user's keyring where the ``keyring`` library is installed, or from a prompt.
"""

from __future__ import annotations

import getpass
import importlib
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from qualify.errors import RefusedError, UnavailableError, UsageError

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner

VARIABLE = "WHEEL_ASSAY_KEY_PASSPHRASE"
KEYRING_SERVICE = "wheel-assay"
_LARGEST = 64 << 10  # bytes; a key is a few hundred


class PrivateKey:
    """A key that signs.  It shows its public half alone, and can't be copied or pickled."""

    __slots__ = ("_signer",)

    def __init__(self, signer: CryptoSigner) -> None:
        self._signer = signer

    @property
    def keyid(self) -> str:
        return str(self._signer.public_key.keyid)

    @property
    def public(self) -> str:
        """The public key's 32 bytes in hex."""
        return str(self._signer.public_key.keyval["public"])

    @property
    def signer(self) -> CryptoSigner:
        return self._signer

    def __repr__(self) -> str:
        return f"PrivateKey({self.keyid})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private key can't be copied or pickled")


def new(path: Path, passphrase: bytes | None = None) -> PrivateKey:
    """Make a key and write it to ``path``, which must be new; mode 0600 from its first moment on.

    :raises RefusedError: there is a file already: a key is never overwritten.
    :raises UnavailableError: it can't be written.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        protection = serialization.BestAvailableEncryption(passphrase)
    pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
    _write_private(path, pem)
    return _wrapped(private)


def load(path: Path) -> PrivateKey:
    """The key in ``path``; asks for its passphrase where it has one.

    :raises UsageError: no such file, or no Ed25519 key in PEM.
    :raises RefusedError: others can read the file, or the passphrase is another.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    data = _read_private(path)
    encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in data
    passphrase = existing_passphrase(path) if encrypted else None
    try:
        private = serialization.load_pem_private_key(data, passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # The library's own words may quote the file; they are left out.
        if encrypted:
            what, action = "the passphrase doesn't open it", f"give the right one, for example in {VARIABLE}"
            raise RefusedError(what, where=str(path), action=action) from None
        raise _no_key(path, type(error).__name__) from None
    if not isinstance(private, Ed25519PrivateKey):
        raise _no_key(path, f"a key of another kind, {type(private).__name__.removesuffix('PrivateKey')}")
    return _wrapped(private)


def new_passphrase(path: Path) -> bytes:
    """The passphrase for a key that is being made: from the environment, the keyring, or typed twice.

    :raises UsageError: none of the three has one, or the two that were typed differ.
    """
    known = _from_environment() or _from_keyring(path)
    if known is not None:
        return known
    if not sys.stdin.isatty():
        raise _no_passphrase(path)
    first = getpass.getpass(f"passphrase for {path.name}: ")
    if not first or first != getpass.getpass("the same again: "):
        raise UsageError("no passphrase, or two different ones", where=str(path), action="run again")
    return first.encode()


def existing_passphrase(path: Path) -> bytes:
    """The passphrase of a key that is there: from the environment, the keyring, or typed.

    :raises UsageError: none of the three has one.
    """
    known = _from_environment() or _from_keyring(path)
    if known is not None:
        return known
    if not sys.stdin.isatty():
        raise _no_passphrase(path)
    return getpass.getpass(f"passphrase for {path.name}: ").encode()


def _from_environment() -> bytes | None:
    value = os.environ.get(VARIABLE, "")
    return value.encode() if value else None


def _from_keyring(path: Path) -> bytes | None:
    """What the user's keyring holds for this file, by its absolute path; None without the library or an entry."""
    try:
        keyring: Any = importlib.import_module("keyring")
    except ImportError:
        return None
    try:
        value = keyring.get_password(KEYRING_SERVICE, str(path.resolve()))
    except Exception as error:  # noqa: BLE001 (each backend has errors of its own)
        print(f"the keyring gave no passphrase: {type(error).__name__}", file=sys.stderr)  # noqa: T201
        return None
    return value.encode() if isinstance(value, str) and value else None


def _no_passphrase(path: Path) -> UsageError:
    return UsageError(
        "the key has a passphrase, and there is nobody to ask for it",
        where=str(path),
        expected=f"{VARIABLE}, or an entry in the keyring (service {KEYRING_SERVICE}, the key's path as the user)",
        action="set one of the two, or run it in a terminal",
    )


def _write_private(path: Path, pem: bytes) -> None:
    # Not through write_atomic: its temporary file could be read by others for a moment, and it overwrites.
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError as error:
        raise RefusedError(
            "there is a file already", where=str(path), expected="a new file", action="name another one"
        ) from error
    except OSError as error:
        raise UnavailableError(
            error.strerror or str(error), where=str(path), action="name a folder of yours"
        ) from error
    try:
        os.fchmod(handle, 0o600)  # whatever the umask takes off
        view = memoryview(pem)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UnavailableError(
                error.strerror or str(error), where=str(path), action="make room, run again"
            ) from error
        raise
    finally:
        os.close(handle)


def _read_private(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            if mode & 0o077:
                raise RefusedError(
                    f"others can read the private key (mode {mode:04o})",
                    where=str(path),
                    expected="mode 0600",
                    action=f"chmod 600 {path}; if others had access to it, make a new key and revoke this one",
                )
            data = stream.read(_LARGEST + 1)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError("no such key", where=str(path), action="make one: qualify key new FILE") from error
    if len(data) > _LARGEST:
        raise _no_key(path, f"larger than {_LARGEST >> 10} KiB")
    return data


def _no_key(path: Path, why: str) -> UsageError:
    return UsageError(
        f"no private key that can be used: {why}",
        where=str(path),
        expected="an Ed25519 key, PKCS#8 in PEM",
        action="make one: qualify key new FILE",
    )


def _wrapped(private: Any) -> PrivateKey:
    from securesystemslib.signer import CryptoSigner

    return PrivateKey(CryptoSigner(private))
