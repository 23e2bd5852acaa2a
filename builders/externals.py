"""The repositories that a build clones while it configures, read from the tree's own CMake files.

What ``FetchContent_Declare``, ``FetchContent_Populate`` and ``ExternalProject_Add`` name is listed: repository, tag,
submodules, and the environment variable that points at a local copy, as the files themselves read it.  Nothing is run.
Whatever cannot be read or resolved is named; nothing is left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from builders.externals_cmake import Branch, CMakeError, Command, read_commands
from builders.externals_conditions import shown, walked
from builders.externals_settings import Settings

MAX_FILES = 2000
MAX_COMMANDS = 100_000  # over all files, each as often as it is included
MAX_BYTES = 4 << 20  # of one file
MAX_ALTERNATIVES = 64  # places that one command may fetch from, by branch

_DECLARING = frozenset({"fetchcontent_declare", "fetchcontent_populate", "externalproject_add"})
_FOLDERS = re.compile(
    r"\$\{(?:CMAKE_CURRENT_LIST_DIR|CMAKE_CURRENT_SOURCE_DIR|CMAKE_SOURCE_DIR|PROJECT_SOURCE_DIR)\}/?"
)
# The options that end a list of values; FetchContent and ExternalProject share them.
_OPTION = re.compile(
    r"(?:GIT|URL|SVN|HG|CVS|DOWNLOAD|UPDATE|PATCH|CONFIGURE|BUILD|INSTALL|TEST|LOG|USES|STEP|CMAKE|LIST|SOURCE|"
    r"BINARY|SUBBUILD|TMP|STAMP|PREFIX|EXCLUDE|DEPENDS|INDEPENDENT|OVERRIDE|FIND|SYSTEM|TIMEOUT|HTTP|TLS|NETRC|INACTIVITY|"
    r"QUIET|COMMAND|EP)(?:_[A-Z0-9_]+)?"
)


@dataclass(frozen=True)
class External:
    """One repository (or archive) that the build fetches unless a local copy is given."""

    name: str
    repository: str  # or the URL of an archive
    tag: str  # commit or tag; "" for an archive
    submodules: tuple[str, ...]  # those that the file names; () where it names none, and git then takes all
    variable: str  # the environment variable that points at a local copy; "" where the files read none
    where: str  # "cmake/external_projects/deepgemm.cmake:54"
    condition: str  # what else must be true for it to be fetched, in CMake's words; "" where all is known to be
    needed: bool  # by this build, as far as what is known decides it
    copy: str = ""  # the local copy, a path of this host; "" where there is none
    fault: str = ""  # what is wrong with the copy; see builders/externals_copies.py
    fetched_from: str = ""  # another address for the repository, of this site; "" for its own
    kind: str = "FetchContent"  # or "ExternalProject", which has no override of its own
    folder: str = ""  # the folder in it that the variable points at; "" for its root
    commit: str = ""  # the exact commit; "" while a tag isn't resolved


@dataclass(frozen=True)
class Placed:
    """A command with the file it stands in, and all its branches, those of the ``include`` among them."""

    file: str
    command: Command
    branches: tuple[Branch, ...]


def read_externals(
    tree: Path,
    globs: Sequence[str],
    *,
    overrides: Mapping[str, str],
    variables: Mapping[str, str],
    copies: Mapping[str, str],
    folders: Mapping[str, str] | None = None,
    needed: bool = True,
) -> tuple[tuple[External, ...], tuple[str, ...]]:
    """The external sources of a tree, and what could not be read ("file:line: why").

    :param globs: the CMake files to begin with; what they include is read as well.
    :param overrides: name -> environment variable, for those whose files read none.
    :param variables: CMake variables whose values are known; they decide branches (``DEVICE STREQUAL "cpu"``).
    :param copies: name -> local copy, a folder of this host, or another address to fetch it from.
    :param folders: name -> the folder in the source that its variable points at.
    :param needed: whether this build needs any.
    """
    reading = Reading(tree)
    commands = reading.all_commands(globs)
    settings = Settings((placed.command, placed.branches) for placed in commands)
    found: dict[tuple[str, str, str], External] = {}
    for index, placed in enumerate(commands):
        if placed.command.name not in _DECLARING:
            continue
        for external in _declared(placed, index, settings, variables, reading.unread):
            given = overrides.get(external.name, "")
            if given and external.variable and given != external.variable:
                reading.unread.append(
                    f"{external.where}: the tree reads {external.variable} for {external.name}, the matrix says {given}"
                )
            place = copies.get(external.name, "")
            external = replace(
                external,
                variable=external.variable or given,
                needed=external.needed and needed,
                folder=(folders or {}).get(external.name, ""),
                copy="" if "://" in place else place,
                fetched_from=place if "://" in place else "",
            )
            key = (external.name, external.repository, external.tag)
            # Declared in two branches, or by a file that is included twice: needed if either is.
            if key not in found or (external.needed and not found[key].needed):
                found[key] = external
    reading.unread += [
        f"external_sources.{name}: no such external source in the tree"
        for name in sorted(set(copies) - {external.name for external in found.values()})
    ]
    return tuple(found.values()), tuple(dict.fromkeys(reading.unread))


class Reading:
    """The CMake files of one tree as one list of commands, in the order in which CMake meets them."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree.resolve()
        self.unread: list[str] = []
        self._parsed: dict[Path, tuple[Command, ...]] = {}
        self._met: set[Path] = set()
        self._located: dict[tuple[Path, str], Path | None] = {}
        self._blocks = 0
        self._count = 0

    def all_commands(self, globs: Sequence[str]) -> list[Placed]:
        found: list[Placed] = []
        for pattern in globs:
            paths = sorted(path for path in self.tree.glob(pattern) if path.is_file())
            if not paths:
                self.unread.append(f"{pattern}: no such CMake file in the tree")
            for path in paths:
                if path.resolve() not in self._met:
                    found += self._file(path.resolve(), (), ())
        return found

    def _file(self, path: Path, outer: tuple[Branch, ...], stack: tuple[Path, ...]) -> Iterator[Placed]:
        name = self._name(path)
        # The block numbers of each inclusion are its own, or two inclusions would exclude each other.
        offset = self._blocks
        commands = self._read(path, name)
        self._blocks += len(commands) + 1
        for command in commands:
            self._count += 1
            if self._count > MAX_COMMANDS:
                if self._count == MAX_COMMANDS + 1:
                    self.unread.append(f"{name}:{command.line}: more than {MAX_COMMANDS} commands in all")
                return
            own = tuple(replace(branch, block=branch.block + offset) for branch in command.branches)
            yield Placed(name, command, outer + own)
            included = self._included(path, command)
            if included is not None and included not in stack and included != path:
                yield from self._file(included, outer + own, (*stack, path))

    def _read(self, path: Path, name: str) -> tuple[Command, ...]:
        self._met.add(path)
        if path in self._parsed:
            return self._parsed[path]
        self._parsed[path] = ()
        if len(self._parsed) > MAX_FILES:
            self.unread.append(f"{name}: more than {MAX_FILES} CMake files")
            return ()
        if not path.is_relative_to(self.tree):
            self.unread.append(f"{name}: leads out of the tree")
            return ()
        try:
            if path.stat().st_size > MAX_BYTES:
                raise CMakeError(0, f"larger than {MAX_BYTES >> 20} MiB")
            self._parsed[path] = read_commands(path.read_text(encoding="utf-8"))
        except (CMakeError, OSError, UnicodeDecodeError) as error:
            line = error.line if isinstance(error, CMakeError) else 0
            self.unread.append(f"{name}:{line}: {error}" if line else f"{name}: {error}")
        return self._parsed[path]

    def _included(self, path: Path, command: Command) -> Path | None:
        """The file of this tree that ``include`` or ``add_subdirectory`` names; None for CMake's own modules."""
        if command.name not in ("include", "add_subdirectory") or not command.words:
            return None
        named = _FOLDERS.sub("", command.words[0])
        if "$" in named or named.startswith("/"):
            return None
        if command.name == "add_subdirectory":
            named = f"{named}/CMakeLists.txt"
        elif not named.endswith((".cmake", ".txt")):
            return None
        if (path.parent, named) not in self._located:
            candidates = ((folder / named).resolve() for folder in (path.parent, self.tree))
            self._located[path.parent, named] = next((path for path in candidates if path.is_file()), None)
        return self._located[path.parent, named]

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.tree)) if path.is_relative_to(self.tree) else path.name


def _declared(
    placed: Placed, index: int, settings: Settings, variables: Mapping[str, str], unread: list[str]
) -> Iterator[External]:
    """What one declaring command names; several where variables differ by branch, nothing for a local folder."""
    where = f"{placed.file}:{placed.command.line}"
    words = placed.command.words
    options = _options(words[1:])
    repository = options.get("GIT_REPOSITORY", options.get("URL", ()))
    if not words or not repository:
        return  # a local folder (SOURCE_DIR), or FetchContent_Populate(name) of what was declared before
    wanted = (words[0], repository[0], (options.get("GIT_TAG") or ("",))[0])
    submodules = tuple(word for word in options.get("GIT_SUBMODULES", ()) if word)
    found = list(islice(settings.resolve("\0".join(wanted), index, placed.branches, variables), MAX_ALTERNATIVES + 1))
    if len(found) > MAX_ALTERNATIVES:
        unread.append(f"{where}: {words[0]} may be fetched from more than {MAX_ALTERNATIVES} places")
    for text, chosen in found[:MAX_ALTERNATIVES]:
        if "$" in text:
            unread.append(f"{where}: {words[0]} is fetched from {' '.join(wanted[1:])}, which is not resolved")
            continue
        name, url, tag = text.split("\0", 2)
        answers = [walked(branch, variables) for branch in chosen]
        open_conditions = [shown(branch) for branch, answer in zip(chosen, answers, strict=True) if answer is not True]
        yield External(
            name=name,
            repository=url,
            tag=tag,
            submodules=submodules,
            variable=settings.variable_before(index, placed.branches),
            where=where,
            kind="ExternalProject" if placed.command.name == "externalproject_add" else "FetchContent",
            condition=" AND ".join(open_conditions),
            needed=False not in answers,
        )


def _options(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    option = ""
    for word in words:
        if _OPTION.fullmatch(word):
            option = word
            found[option] = ()
        elif option:
            found[option] = (*found[option], word)
    return found
