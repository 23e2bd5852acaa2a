"""Where an upload goes: the server's address, the index that is read, what the server takes, and the account.

twine resolves a destination: a name of ``.pypirc`` (it knows ``pypi`` and ``testpypi`` by itself) or an address.
Account and token come from ``TWINE_USERNAME`` and ``TWINE_PASSWORD``, ``.pypirc``, the address or the keyring, or from
the CI system by trusted publishing, as twine looks for them.  Nothing here prints them: :meth:`Account.hide` strikes
them out of whatever a library or a server says.
"""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from qualify.errors import UnavailableError, UsageError
from qualify.packageindex import default_index

if TYPE_CHECKING:
    from twine.repository import Repository
    from twine.settings import Settings

_MIB = 1 << 20
_LOOPBACK = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1")
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")
_LONGEST = 300  # characters of what a server says
_HIDDEN = "****"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a server takes, as far as that is known before it is asked."""

    local_versions: bool = True
    references: bool = True  # requirements with an address ("torch @ https://…")
    platforms: tuple[str, ...] = ()  # fnmatch patterns over a platform tag; (): any
    size_limit: int = 0  # bytes of one file; 0: not known


# What the public index takes of anybody; a project may be granted a larger limit.
PUBLIC = Rules(
    local_versions=False,
    references=False,
    platforms=("any", "manylinux1_*", "manylinux20??_*", "manylinux_*", "musllinux_*", "macosx_*", "win*"),
    size_limit=100 * _MIB,
)
RULES = {"public": PUBLIC, "any": Rules()}


@dataclass(frozen=True, slots=True)
class Destination:
    """One server, without its account: every field may be printed."""

    name: str  # as a person named it
    url: str  # where files are posted
    index: str  # the simple index that installers read
    rules: Rules
    settings: Settings = field(repr=False)  # twine's

    @property
    def shown(self) -> str:
        return self.name if "://" not in self.name else self.url


class Account:
    """Whom an upload is made as.  Has no printable form, and knows its own secrets so as to hide them."""

    __slots__ = ("_pair", "_secrets")

    def __init__(self, username: str, password: str) -> None:
        self._pair = (username, password)
        pair = base64.b64encode(f"{username}:{password}".encode()).decode()
        secrets = {password, quote(password, safe=""), pair} if password else set()
        self._secrets = sorted(secrets, key=len, reverse=True)

    def __repr__(self) -> str:
        return "<account>"

    def hide(self, text: str) -> str:
        """``text`` on one line of printable characters, of bounded length, without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        text = " ".join(_USERINFO.sub(f"{_HIDDEN}@", text).split())
        text = "".join(c if c.isprintable() else "?" for c in text)
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"

    def of_index(self, destination: Destination) -> str:
        """The address of the index, with the account where it lies on the server that the account is for.

        For an installer's environment, never for a person or a command line.
        """
        posted, read = urlsplit(destination.url), urlsplit(destination.index)
        username, password = self._pair
        if not username or "@" in read.netloc or (posted.scheme, posted.netloc) != (read.scheme, read.netloc):
            return destination.index
        netloc = f"{quote(username, safe='')}:{quote(password, safe='')}@{read.netloc}"
        return urlunsplit(read._replace(netloc=netloc))


def resolve(
    to: str, *, index: str = "", rules: str = "", size_limit: int = 0, environment: Mapping[str, str] | None = None
) -> Destination:
    """Find a destination by name or address; nothing is asked of any server.

    :param index: the simple index that installers read; "": derived from where files are posted.
    :param rules: a key of :data:`RULES`; "": ``public`` for the servers that twine knows by name, else ``any``.
    :param size_limit: bytes of one file that the server takes; 0: as the rules say.
    :raises UsageError: no such name, no address, or one that would carry the token unencrypted.
    :raises UnavailableError: twine isn't installed.
    """
    settings, known = _settings(to, os.environ if environment is None else environment)
    url = str(settings.repository_config["repository"])
    for address in (url, index):
        _require_encrypted(address)
    taken = RULES[rules] if rules else (PUBLIC if known else Rules())
    if size_limit:
        taken = Rules(taken.local_versions, taken.references, taken.platforms, size_limit)
    name = redacted(to) if "://" in to else to
    return Destination(name, url, index or _index_of(url), taken, settings)


def open_session(destination: Destination) -> tuple[Repository, Account]:
    """twine's session with the account in it, and the account.

    :raises UnavailableError: no account is to be found, or the CI system gives no token.
    """
    from requests import RequestException
    from twine.exceptions import TwineException

    problem = ""
    try:
        repository = destination.settings.create_repository()
        account = Account(destination.settings.username or "", destination.settings.password or "")
    except (TwineException, RequestException, OSError, ValueError) as error:
        problem = Account("", "").hide(str(error) or type(error).__name__)
    if problem:
        # Raised out here, so that no traceback leads back to what knows a secret.
        raise UnavailableError(
            f"no account to upload with: {problem}",
            where=destination.shown,
            expected="TWINE_USERNAME and TWINE_PASSWORD (__token__ and a token), an entry of .pypirc or of the keyring",
            action="set them; both empty for a server that asks for none",
        )
    return repository, account


def redacted(url: str) -> str:
    """An address as it may be printed."""
    return _USERINFO.sub(f"{_HIDDEN}@", url)


def _settings(to: str, environment: Mapping[str, str]) -> tuple[Settings, bool]:
    try:
        from twine import utils
        from twine.exceptions import TwineException
        from twine.settings import Settings
    except ImportError:
        raise UnavailableError(
            "twine isn't installed here", expected="twine 6.1 or newer", action="pip install 'wheel-assay[upload]'"
        ) from None
    address = "://" in to
    problem = ""
    try:
        settings = Settings(
            username=environment.get("TWINE_USERNAME"),
            password=environment.get("TWINE_PASSWORD"),
            non_interactive=True,
            cacert=environment.get("TWINE_CERT"),
            repository_name="pypi" if address else to,
            repository_url=to if address else None,
            disable_progress_bar=True,
        )
    except (TwineException, OSError, ValueError) as error:
        problem = Account("", "").hide(str(error).partition("\n")[0])
    if problem:
        raise UsageError(
            problem, where=redacted(to), expected="an address, or a section of .pypirc", action="mend --to or .pypirc"
        )
    # It speaks of credentials and of what servers say; what a person has to know stands in our errors.
    logging.getLogger("twine").setLevel(logging.CRITICAL)
    known = (utils.DEFAULT_REPOSITORY, utils.TEST_REPOSITORY)
    return settings, str(settings.repository_config["repository"]).startswith(known)


def _index_of(url: str) -> str:
    """The simple index beside where files are posted: ``…/legacy/`` has ``…/simple/`` beside it, others below."""
    from twine import utils

    if url == utils.DEFAULT_REPOSITORY:
        return default_index()
    return url.rstrip("/").removesuffix("/legacy") + "/simple/"


def _require_encrypted(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and not _LOOPBACK.fullmatch(parts.hostname or ""):
        raise UsageError(
            "the token would travel unencrypted",
            where=redacted(url),
            expected="https://…",
            action="use https, or a tunnel that ends at this host",
        )
