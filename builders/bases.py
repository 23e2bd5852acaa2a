"""Base images and the images of one role made from them.

A base comes by digest from ``dockerfiles/bases.lock.yaml``, or, where the image's registry does not answer, from
Debian's packages.  An image of a role is tagged with a hash of all that it is made from, so the second build
finds it there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from builders.bootstrap import bootstrapped, image_name
from builders.host import cache_folder
from qualify.errors import ConfigurationError, UnavailableError, UsageError
from qualify.files import locked, write_atomic
from qualify.matrix.local import LocalSettings
from qualify.matrix.model import Base

Detail = Callable[[str], None]

ROLES = {"build": ("build",), "cross": ("build", "cross")}  # each made from the one before it
_LOCK = "bases.lock.yaml"
_DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")


@dataclass(frozen=True, slots=True)
class BaseWish:
    """Where a base comes from: what the matrix says, and what is true of one site alone.

    ``site``: the image is this site's own, in place of the matrix's, and needs no lock.  ``registry`` is put before
    the image's name, ``mirror`` is where Debian's packages come from.
    """

    image: str = ""
    bootstrap: str = ""
    digest: str = ""
    site: bool = False
    registry: str = ""
    mirror: str = ""

    @property
    def reference(self) -> str:
        """The image's name as it is asked for here."""
        return f"{self.registry.rstrip('/')}/{self.image}" if self.registry and not self.site else self.image


def wish_for(target: str, base: Base, local: LocalSettings) -> BaseWish:
    """The base of a target on this site."""
    own = local.bases.get(target)
    if own is not None:
        return BaseWish(own.image, digest=own.digest, site=True)
    return BaseWish(base.image, base.bootstrap, registry=local.mirrors.registry, mirror=local.mirrors.debian)


class Listener(Protocol):
    """Who hears what happens (see :class:`builders.engines.Listener`)."""

    def say(self, text: str) -> None: ...

    def detail(self, text: str) -> None: ...


class ImageStore(Protocol):
    """The images of an engine."""

    def find(self, tag: str) -> str:
        """The id of a tagged image; "" where it is not there."""

    def load(self, archive: IO[bytes], tag: str) -> str:
        """Load a saved image; returns its id."""

    def pull(self, image: str, digest: str, machine: str) -> str:
        """:raises UnavailableError: the registry does not answer."""

    def digest(self, image: str, machine: str) -> str:
        """The digest that the registry has for a tag now. :raises UnavailableError: it does not answer."""

    def build(
        self, context: Mapping[str, bytes], dockerfile: str, tag: str, base: str, machine: str, detail: Detail
    ) -> str:
        """Build one Dockerfile; returns the image's id."""


def dockerfiles() -> Path:
    """The folder of Dockerfiles: the repository's, or the copy in the distribution.

    :raises ConfigurationError: neither is there.
    """
    here = Path(__file__).resolve().parent
    for folder in (here.parent / "dockerfiles", here / "data" / "dockerfiles"):
        if (folder / "build.Dockerfile").is_file():
            return folder
    raise ConfigurationError("the Dockerfiles are not there", where=str(here), action="install wheel-assay again")


def build_image(store: ImageStore, base: BaseWish, machine: str, role: str, listener: Listener) -> tuple[str, str]:
    """The image of a role for a machine, made where it is not there yet.

    :returns: its id, and where its base came from: "registry", "bootstrap" or "site".
    :raises UnavailableError: neither a registry nor Debian's packages can be had.
    :raises ConfigurationError: the base's image has no digest in the lock though its registry answers.
    """
    image, origin = ensure_base(store, base, machine, listener)
    files = _context()
    for name in ROLES[role]:
        dockerfile = f"{name}.Dockerfile"
        tag = f"wheel-assay/{name}:{_hash_of(image, dockerfile, files)}-{machine}"
        with locked(_lock_file(tag), timeout=3600, purpose=f"making {tag}"):
            found = store.find(tag)
            if not found:
                listener.say(f"building image {tag}")
                found = store.build(files, dockerfile, tag, image, machine, listener.detail)
        image = found
    return image, origin


def find_image(store: ImageStore, base: BaseWish, machine: str, role: str, lock: Path | None = None) -> str:
    """The image of a role where the engine has it; "" where it would be made.  Nothing is made or fetched for it."""
    repository = base.reference.rsplit(":", 1)[0] if ":" in base.reference.rsplit("/", 1)[-1] else base.reference
    digest = base.digest if base.site else read_lock(lock)[0].get(f"{base.image}@{machine}", "")
    names = [f"{repository}@{digest}"] if base.image and digest else [base.image] if base.site else []
    if base.bootstrap and not base.site:
        names.append(image_name(base.bootstrap, machine))
    image = next((found for name in names if (found := store.find(name))), "")
    files = _context()
    for name in ROLES[role] if image else ():
        image = store.find(f"wheel-assay/{name}:{_hash_of(image, f'{name}.Dockerfile', files)}-{machine}")
        if not image:
            return ""
    return image


def ensure_base(
    store: ImageStore,
    base: BaseWish,
    machine: str,
    listener: Listener,
    *,
    refresh: bool = False,
    lock: Path | None = None,
) -> tuple[str, str]:
    """The base image itself; ``refresh`` bootstraps anew where it would be found.  Returns id and origin."""
    if base.site:
        return _site_image(store, base, machine), "site"
    if base.image:
        digest = read_lock(lock)[0].get(f"{base.image}@{machine}", "")
        try:
            if digest:
                return store.pull(base.reference, digest, machine), "registry"
            answered = store.digest(base.reference, machine)
        except UnavailableError as error:
            if not base.bootstrap:
                raise
            listener.say(f"base {base.image}: {error.what}; made from {base.bootstrap}'s packages instead")
        else:
            raise ConfigurationError(
                f"{base.image} for {machine} has no digest in the lock",
                where=f"dockerfiles/{_LOCK}",
                expected=answered,
                action="python -m builders base TARGET --renew-lock",
            )
    if not base.bootstrap:
        raise ConfigurationError("neither an image nor a bootstrap is named", where="base", action="name one")
    tag = image_name(base.bootstrap, machine)
    with locked(_lock_file(tag), timeout=3600, purpose=f"making {tag}"):
        found = "" if refresh else store.find(tag)
        if not found:
            listener.say(f"bootstrapping {tag}")
            with bootstrapped(base.bootstrap, machine, listener.detail, base.mirror) as archive:
                found = store.load(archive, tag)
    return found, "bootstrap"


def _site_image(store: ImageStore, base: BaseWish, machine: str) -> str:
    """A site's own image: by its digest, else what the name means on this engine, else in its registry now."""
    if base.digest:
        return store.pull(base.image, base.digest, machine)
    return store.find(base.image) or store.pull(base.image, store.digest(base.image, machine), machine)


def renew_lock(store: ImageStore, wanted: Sequence[tuple[str, str]], path: Path | None = None) -> dict[str, str]:
    """Ask the registries for the digests of ``(image, machine)`` and write those into the lock.

    All are asked before anything is written.

    :returns: what changed, "image@machine" -> new digest.
    :raises UnavailableError: a registry does not answer; nothing was written.
    """
    entries, document, target = read_lock(path, keep=True)
    fresh = {f"{image}@{machine}": store.digest(image, machine) for image, machine in wanted}
    changed = {name: digest for name, digest in fresh.items() if entries.get(name) != digest}
    if changed:
        document["images"] = {**entries, **changed}
        write_atomic(target, _dump(document))
    return changed


def read_lock(path: Path | None = None, *, keep: bool = False) -> tuple[dict[str, str], Any, Path]:
    """The lock's entries, its whole document (with comments where ``keep``), and its path.

    :raises ConfigurationError: it is no such file.
    """
    target = path or dockerfiles() / _LOCK
    try:
        document = YAML(typ="rt" if keep else "safe", pure=True).load(target.read_text(encoding="utf-8"))
        images = dict(document["images"])
        bad = next((name for name, digest in images.items() if not _DIGEST.match(str(digest))), "")
        if document["version"] != 1 or bad:
            raise ConfigurationError(
                f"{bad or 'its version'} is not right", where=str(target), expected="version 1, sha256:… digests"
            )
    except (OSError, YAMLError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"no lock of base images: {error}", where=str(target)) from error
    return images, document, target


def role_for(how: str) -> str:
    """The role of image that a way of building needs.

    :raises UsageError: no such way.
    """
    try:
        return {"native": "build", "emulate": "build", "cross": "cross"}[how]
    except KeyError:
        raise UsageError(f"no such way to build: {how}", where="--how", expected="native, cross, emulate") from None


def _context() -> dict[str, bytes]:
    folder = dockerfiles()
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix != ".yaml"}


def _hash_of(image: str, dockerfile: str, files: Mapping[str, bytes]) -> str:
    used = (image.encode(), files[dockerfile], files["install-packages.sh"])
    return hashlib.sha256(b"\0".join(used)).hexdigest()[:12]


def _lock_file(tag: str) -> Path:
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / tag.replace("/", "_").replace(":", "_")


def _dump(document: Any) -> str:
    import io

    stream = io.StringIO()
    YAML(typ="rt", pure=True).dump(document, stream)
    return stream.getvalue()
