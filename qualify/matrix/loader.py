"""Find the matrix, read it, and say in one error all that is wrong with it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qualify.errors import ConfigurationError, UsageError
from qualify.matrix import document as documents
from qualify.matrix.document import Document, Problem
from qualify.matrix.local import LocalSettings
from qualify.matrix.model import Matrix
from qualify.matrix.rules import absolute_paths, consistency, unquoted_commits
from qualify.matrix.validate import validate

FILE_NAME = "matrix.yaml"
LOCAL_NAME = "matrix.local.yaml"
VARIABLE = "WHEEL_ASSAY_MATRIX"
_PACKAGED = Path(__file__).resolve().parent.parent / "data" / FILE_NAME


@dataclass(frozen=True, slots=True)
class LoadedMatrix:
    matrix: Matrix
    path: Path  # absolute
    asserted_sha256: str  # of the canonical JSON of everything but `measured`
    local: LocalSettings
    document: Document  # lines of the keys, for who reports on the file or writes to it

    def folder(self, text: str) -> Path:
        """A path of the matrix or of the local settings, seen from the matrix's folder; ``~`` is the user's."""
        return (self.path.parent / Path(text).expanduser()).resolve()

    def place(self, text: str) -> Path:
        """A destination as a command is given it; ``lab:vllm`` is the folder ``vllm`` of the NAS root ``lab``.

        :raises UsageError: no NAS root has this name, and no folder either.
        """
        name, colon, rest = text.partition(":")
        if not colon or "/" in name or (name not in self.local.nas_roots and Path(text).is_dir()):
            return Path(text)
        if name not in self.local.nas_roots:
            raise UsageError(
                f"no NAS root {name}",
                where=text,
                expected="one of "
                + (", ".join(self.local.nas_roots) or f"nas_roots in {LOCAL_NAME} beside the matrix"),
                action=f"name it there; a new folder of that name here is ./{text}",
            )
        return Path(self.local.nas_roots[name]) / rest.lstrip("/")


def load(path: Path | None = None) -> LoadedMatrix:
    """Load the matrix at ``path``, else the one that :func:`find` finds.

    :raises ConfigurationError: no matrix, or a wrong one; every problem stands in it with its line.
    """
    chosen = (path if path is not None else find()).absolute()
    text = _read(chosen)
    parsed = documents.parse(text)
    matrix, problems = check(parsed)
    if matrix is None:
        raise refusal(problems, shown_path(chosen))
    return LoadedMatrix(matrix, chosen, asserted_sha256(matrix), load_local(chosen.with_name(LOCAL_NAME)), parsed)


def find(start: Path | None = None) -> Path:
    """The matrix that WHEEL_ASSAY_MATRIX names, else matrix.yaml here or in a parent, else the distribution's copy.

    :raises ConfigurationError: there is none.
    """
    if named := os.environ.get(VARIABLE, ""):
        return Path(named)
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    if _PACKAGED.is_file():
        return _PACKAGED
    raise ConfigurationError(
        f"no {FILE_NAME} in this folder or a parent",
        where=str(here),
        action=f"name one with --matrix or {VARIABLE}, or judge with --machine and --cc",
    )


def check(parsed: Document) -> tuple[Matrix | None, list[Problem]]:
    """The matrix in a document, or None and all that is wrong with it, by line."""
    matrix, problems = validate(Matrix, parsed)
    problems += [*absolute_paths(parsed), *unquoted_commits(parsed)]
    if matrix is not None:
        problems += consistency(matrix, parsed)
    unique = {(problem.line, problem.path): problem for problem in reversed(problems)}
    ordered = sorted(unique.values(), key=lambda problem: problem.line)
    return (None if ordered else matrix), ordered


def load_local(path: Path) -> LocalSettings:
    """The local settings at ``path``, with every folder in them absolute; the empty ones where there is no such file.

    :raises ConfigurationError: it is wrong; every problem stands in it with its line.
    """
    if not path.exists():
        return LocalSettings()
    settings, problems = validate(LocalSettings, documents.parse(_read(path) or "{}"))
    if settings is None:
        raise refusal(problems, shown_path(path))
    return settings.resolved(lambda text: str((path.parent / Path(text).expanduser()).resolve()))


def asserted_sha256(matrix: Matrix) -> str:
    """Hash what a person asserted: everything but ``measured``.

    Defaults are left out, so that writing one down, or a new field with a default, changes no hash.
    """
    value = matrix.model_dump(mode="json", exclude={"measured"}, exclude_defaults=True)
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ConfigurationError("no such file", where=shown_path(path), action="name a matrix with --matrix") from None
    except IsADirectoryError:
        raise ConfigurationError(
            "this is a folder", where=shown_path(path), expected="a YAML file", action=f"name its {FILE_NAME}"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"byte {error.start} isn't UTF-8", where=shown_path(path), action="save the file as UTF-8"
        ) from None


def shown_path(path: Path) -> str:
    """As a person would name it: relative where it lies below the folder they are in."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def refusal(problems: Sequence[Problem], name: str) -> ConfigurationError:
    """One error that says all that is wrong with a file, each with its line."""
    if len(problems) == 1:
        (problem,) = problems
        where = f"{name}:{problem.line}" if problem.line else name
        what = f"{problem.path}: {problem.what}" if problem.path else problem.what
        return ConfigurationError(what, where=where, action=problem.action)
    lines = "".join(f"\n  {problem.render(name)}" for problem in problems)
    return ConfigurationError(f"{len(problems)} problems{lines}", where=name)
