"""The text files of a wheel: METADATA, WHEEL, RECORD, version modules, path files.

Formats: core metadata and the binary distribution format of packaging.python.org; RECORD is CSV with three columns.
Nothing is judged here and nothing of the wheel runs: version modules are parsed by ``ast``.
"""

from __future__ import annotations

import ast
import csv
import io
import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from qualify.facts import DistInfo, RecordRow, VersionModule, installed_path
from qualify.lines import lines_of_python
from qualify.readers.binary import Problems

if TYPE_CHECKING:
    from email.message import Message

_TEXT_FILES = ("METADATA", "WHEEL", "RECORD", "entry_points.txt")
_MOST_ROWS, _MOST_TAGS = 1_000_000, 10_000


def dist_info_folders(paths: Sequence[str]) -> tuple[str, ...]:
    """The ``*.dist-info`` folders at the top of the wheel, sorted."""
    return tuple(sorted({top for top, slash, _ in (path.partition("/") for path in paths) if slash and _is_info(top)}))


def is_text_member(path: str) -> bool:
    """Whether the content of this member is read as text: of METADATA and its like, version modules, path files."""
    top, _, rest = path.partition("/")
    named = _is_info(top) and rest in _TEXT_FILES
    return named or is_path_file(path) or path.endswith("/_version.py") or path == "_version.py"


def is_path_file(path: str) -> bool:
    """Whether ``site`` acts on this file: it looks for ``.pth`` in site-packages itself, not in the folders below.

    Deeper ones are weights as a rule, which torch saves under the same suffix.
    """
    installed = installed_path(path)
    return installed.endswith(".pth") and "/" not in installed


def read_dist_info(folder: str, paths: Sequence[str], texts: Mapping[str, bytes], problems: Problems) -> DistInfo:
    """What the files of ``folder`` say; what is not there stays empty."""
    metadata = _message(f"{folder}/METADATA", texts, problems)
    wheel = _message(f"{folder}/WHEEL", texts, problems)
    return DistInfo(
        folder=folder,
        metadata_name=_value(metadata, "Name"),
        metadata_version=_value(metadata, "Version"),
        requires_python=_value(metadata, "Requires-Python"),
        requires_dist=_values(metadata, "Requires-Dist"),
        wheel_tags=_tags(f"{folder}/WHEEL", _values(wheel, "Tag"), problems),
        wheel_version=_value(wheel, "Wheel-Version"),
        root_is_purelib=_value(wheel, "Root-Is-Purelib"),
        generator=_value(wheel, "Generator"),
        record=_record(f"{folder}/RECORD", texts, problems),
        files=tuple(path.removeprefix(f"{folder}/") for path in paths if path.startswith(f"{folder}/")),
        metadata=_headers(texts.get(f"{folder}/METADATA", b"")) if metadata is not None else "",
        entry_points=_plain_text(f"{folder}/entry_points.txt", texts, problems),
        build=_value(wheel, "Build"),
    )


def expand_tag(tag: str) -> tuple[str, ...]:
    """``cp38.cp39-abi3-linux_x86_64`` -> each tag that it stands for; what is no tag comes back as it is."""
    parts = [part.split(".") for part in tag.split("-")]
    if len(parts) != 3 or len(parts[0]) * len(parts[1]) * len(parts[2]) > 1024:
        return (tag,)
    return tuple("-".join(combination) for combination in product(*parts))


def _tags(path: str, lines: Sequence[str], problems: Problems) -> tuple[str, ...]:
    tags: list[str] = []
    for line in lines:
        tags += expand_tag(line)
        if len(tags) > _MOST_TAGS:
            problems.malformed(path, f"has more than {_MOST_TAGS} tags")
            break
    return tuple(tags)


def read_version_module(path: str, source: bytes) -> VersionModule:
    """``__version__`` and ``__commit_id__`` where a module sets them to literals; empty where it does not."""
    found: dict[str, str] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return VersionModule(path, "", "")
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found |= {target.id: node.value.value for target in targets if isinstance(target, ast.Name)}
    version = found.get("__version__", found.get("version", ""))
    return VersionModule(path, version, found.get("__commit_id__", found.get("commit_id", "")))


def read_path_file(path: str, source: bytes) -> tuple[str, ...]:
    """``path: line`` for each line of a ``.pth`` file that ``site`` would act on; ``path: `` where there is none.

    Since Python 3.13 ``site`` ends lines as ``str.splitlines`` does, before as files do: what either would act on.
    """
    text = source.decode("utf-8", "backslashreplace")
    read = dict.fromkeys(line.strip() for line in [*io.StringIO(text, newline=None), *lines_of_python(text)])
    acting = [line for line in read if line and not line.startswith("#")]
    return tuple(f"{path}: {line}" for line in acting or [""])


def _is_info(folder: str) -> bool:
    return folder.endswith(".dist-info")


def _message(path: str, texts: Mapping[str, bytes], problems: Problems) -> Message | None:
    raw = texts.get(path)
    if raw is None:
        return None
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        problems.malformed(path, "is no UTF-8")
        return None
    # Imported once the members are read: what starts the reading waits for no parser of mail.
    from email.parser import BytesParser
    from email.policy import compat32

    return BytesParser(policy=compat32).parsebytes(raw, headersonly=True)


def _headers(raw: bytes) -> str:
    """The text before the first empty line, but the field ``Description`` with its continuation lines.

    The description is the greater part of a METADATA as a rule, and nothing is held against it.
    """
    kept: list[str] = []
    dropped = False
    # Lines end where the parser of mail ends them: a field may hold a form feed or U+2028.
    for line in io.StringIO(raw.decode("utf-8"), newline=""):
        if not line.strip("\r\n"):
            break
        if not line.startswith((" ", "\t")):
            dropped = line.lower().startswith("description:")
        if not dropped:
            kept.append(line)
    return "".join(kept)


def _plain_text(path: str, texts: Mapping[str, bytes], problems: Problems) -> str:
    try:
        return texts.get(path, b"").decode("utf-8")
    except UnicodeDecodeError:
        problems.malformed(path, "is no UTF-8")
        return ""


def _values(message: Message | None, key: str) -> tuple[str, ...]:
    if message is None:
        return ()
    return tuple(_clean(value) for value in message.get_all(key, []))


def _value(message: Message | None, key: str) -> str:
    values = _values(message, key)
    return values[0] if values else ""


def _clean(value: object) -> str:
    # Bytes beyond ASCII come out of the parser as surrogates, which no JSON can carry.
    return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").strip()


def _record(path: str, texts: Mapping[str, bytes], problems: Problems) -> tuple[RecordRow, ...]:
    raw = texts.get(path)
    if raw is None:
        return ()
    rows: list[RecordRow] = []
    try:
        for row in csv.reader(io.StringIO(raw.decode("utf-8"), newline="")):
            if len(row) != 3:
                if row:
                    problems.malformed(path, f"row {len(rows) + 1} has {len(row)} columns instead of 3")
                continue
            rows.append(RecordRow(*row))
            if len(rows) > _MOST_ROWS:
                problems.unreadable(path, f"has more than {_MOST_ROWS} rows; the rest was not looked at")
                break
    except (csv.Error, UnicodeDecodeError) as error:
        problems.malformed(path, f"is no UTF-8 text of comma-separated rows ({error})")
    return tuple(rows)
