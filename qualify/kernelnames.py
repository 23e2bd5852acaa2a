"""Kernel names without what differs from one build to the next.

Three spellings in a mangled name say where, when and for what it was compiled, not which kernel it is:

* nvcc names whatever is internal to a translation unit (an anonymous namespace, a static kernel under ``-rdc``, an
  internal device function) by a module id: a hash that depends on the file's path, the file's name behind its length,
  then the first external name, or its hash, or a hash and a process number.
  ``66_GLOBAL__N__24963849_28_dcp_direct_a2a_lse_reduce_cu_6b687e18_7593``, ``33_INTERNAL_67223d63_6_k_1_cu_plain``,
  ``__nv_static_24__67223d63_6_k_1_cu_plain__Z4statPf``.  The file's name stays.
* CUB and Thrust put everything into an inline namespace that spells their version and the list of architectures:
  ``43CUB_300001_SM_750_800_860_890_900_1000_1200``, ``23THRUST_300001_SM_900_NS``, ``16_V_300200_SM_900``.  That it is
  one stays.

An identifier stands behind its length (Itanium C++ ABI, 5.1.2), so that its end is known, and the new one behind its
own; a dot tells it from every name that a compiler writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_MARKER = re.compile(r"_GLOBAL__N__|_INTERNAL_|(?:CUB|THRUST|_V)_[0-9]|__nv_static_[0-9]")
_STATIC = re.compile(r"__nv_static_([0-9]{1,3})_")
_MODULE = re.compile(r"_(?:([0-9a-f]{8})_)?([0-9]{1,3})_")
_FILE = re.compile(r"[A-Za-z0-9_]+")
#: What nvcc before CUDA 11.3 put around the file's name: its temporary file, and the last step of preprocessing.
_TEMPORARY = re.compile(r"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}_[0-9]+_(.+?)(?:_compute_[0-9]+)?(?:_cpp[0-9]_ii)?")
_LIBRARY = re.compile(r"(?:(?:CUB|THRUST)_[0-9]+(?:_SM)?|_V_[0-9]+_SM)(?:_[0-9]+[a-z]?)+(?:_NS)?")
_LIBRARY_TEXT = "5CCCL."
_DIGITS = 4  # of an identifier's length, at most


def normalised(name: str) -> str:
    """One kernel's name as every build of the same source spells it; any other name is returned as it is.

    Linear in the name's length, whatever the name.
    """
    return _rewritten(name)[0]


def respelt(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Of ``names``, those that :func:`normalised` changes, with what it makes of them and the path hashes that go.

    Names that become equal are the same kernel where the path hashes are equal as well; else they come from files of
    one name in several folders, and are different kernels.
    """
    candidates = [
        name
        for name in names
        if "_GLOBAL__N__" in name or "_SM_" in name or "_NS" in name or "_INTERNAL_" in name or "__nv_static_" in name
    ]
    found = {name: _rewritten(name) for name in candidates}
    return {name: pair for name, pair in found.items() if pair[0] != name}


def _rewritten(name: str) -> tuple[str, str]:
    """The normalised name, and the path hashes that it lost."""
    parts: list[str] = []
    paths: list[str] = []
    done = 0
    for marker in _MARKER.finditer(name):
        start = marker.start()
        if start < done:
            continue  # inside what was replaced
        kind = marker[0]
        if kind.startswith("__nv_static_"):
            found = _static(name, start)
        elif kind.startswith(("_GLOBAL", "_INTERNAL")):
            found = _internal(name, start, done)
        else:
            found = _library(name, start, done)
        if found is not None:
            begin, end, text, path = found
            parts += (name[done:begin], text)
            paths.append(path)
            done = end
    parts.append(name[done:])
    return "".join(parts), " ".join(filter(None, paths))


_Found = tuple[int, int, str, str]  # where it begins and ends, what replaces it, the hash of the file's path


def _lengths(name: str, start: int, done: int) -> range:
    """Where the length of the identifier at ``start`` can begin: its digits may end the identifier before it."""
    first = start
    while first > done and start - first < _DIGITS and name[first - 1].isdecimal():
        first -= 1
    return range(first, start)


def _internal(name: str, start: int, done: int) -> _Found | None:
    """A module id as an identifier.  Its end is open, by a few characters: the shortest that holds the file's name."""
    for begin in reversed(_lengths(name, start, done)):
        if name[begin] == "0" or (end := start + int(name[begin:start])) > len(name):
            continue
        text = name[start:end]
        kind = "_GLOBAL__N" if text.startswith("_GLOBAL__N__") else "_INTERNAL"
        path, file = _file_of(text[len(kind) + (kind == "_GLOBAL__N") :])
        if file:
            identifier = f"{kind}.{file}"
            return begin, end, f"{len(identifier)}{identifier}", path
    return None


def _library(name: str, start: int, done: int) -> _Found | None:
    """A library's inline namespace.  It is told by its form alone: the longest that has it."""
    for begin in _lengths(name, start, done):
        end = start + int(name[begin:start])
        if name[begin] != "0" and end <= len(name) and _LIBRARY.fullmatch(name, start, end):
            return begin, end, _LIBRARY_TEXT, ""
    return None


def _static(name: str, start: int) -> _Found | None:
    """A static kernel of relocatable code: the module id and its length stand before the mangled name."""
    match = _STATIC.match(name, start)
    if match is None or (end := match.end() + int(match[1])) > len(name):
        return None
    path, file = _file_of(name[match.end() : end])
    return (start, end, f"__nv_static.{file}", path) if file else None


def _file_of(module: str) -> tuple[str, str]:
    """Path hash and file name of a module id, ``_67223d63_6_k_1_cu_plain``; an empty name where it is none."""
    match = _MODULE.match(module)
    if match is None:
        return "", ""
    end = match.end() + int(match[2])
    file = module[match.end() : end]
    if module[end : end + 1] != "_" or not _FILE.fullmatch(file):
        return "", ""
    temporary = _TEMPORARY.fullmatch(file)
    return match[1] or "", temporary[1] if temporary else file
