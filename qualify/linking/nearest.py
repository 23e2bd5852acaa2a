"""The export that a missing symbol was probably meant for, and whether the string ABI alone tells the two apart."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import cached_property

from qualify.linking.index import ExportIndex
from qualify.linking.names import demangled, is_new_string_abi, without_string_abi

_MOST = 400  # candidates that are read; the commonest name of torch's has a few thousand
MOST_NAMES = 400  # that near exports are looked for; a wheel of another string ABI lacks a few hundred
_SHARED = 200  # names of C that are compared by their letters
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Nearest:
    """Looks for near exports in one index."""

    def __init__(self, index: ExportIndex) -> None:
        self._index = index
        self._found: dict[str, tuple[str, bool]] = {}

    @cached_property
    def _text(self) -> str:
        """All names, each between line breaks: searching it is memory speed, where a loop over them is not."""
        names = {name for exports in self._index.libraries.values() for name in exports}
        return "\n" + "\n".join(sorted(names)) + "\n"

    def nearest(self, name: str) -> tuple[str, bool]:
        """The nearest export, mangled, and whether it differs by the string ABI alone; "" where none is near."""
        if name not in self._found and len(self._found) >= MOST_NAMES:
            return "", False
        if name not in self._found:
            self._found[name] = self._look(name)
        return self._found[name]

    def _look(self, name: str) -> tuple[str, bool]:
        readable = demangled(name)
        if readable == name:
            return self._nearest_of_c(name), False
        qualified = _qualified(readable)
        *_, last = qualified.split("::")
        base = _IDENTIFIER.match(last.lstrip("~"))
        if base is None:
            return "", False
        candidates = list(self._holding(f"{len(base[0])}{base[0]}"))
        wanted = without_string_abi(readable)
        same = [each for each in candidates if without_string_abi(demangled(each)) == wanted]
        if same:
            # A constructor has several symbols that read the same.
            twin = max(same, key=lambda each: _shared(each, name))
            return twin, is_new_string_abi(twin) != is_new_string_abi(name)
        likely = [each for each in candidates if _qualified(demangled(each)) == qualified] or candidates
        ratio = difflib.SequenceMatcher(b=wanted[:400], autojunk=False)
        best, score = "", 0.6
        for each in likely[:50]:
            ratio.set_seq1(without_string_abi(demangled(each))[:400])
            if ratio.real_quick_ratio() > score and ratio.quick_ratio() > score and (found := ratio.ratio()) > score:
                best, score = each, found
        return best, False

    def _nearest_of_c(self, name: str) -> str:
        first = name[: max(8, len(name) * 2 // 3)]
        found = [each for each in self._holding(f"\n{first}", _SHARED) if not each.startswith("_Z")]
        return next(iter(difflib.get_close_matches(name, found, 1, 0.6)), "")

    def _holding(self, piece: str, most: int = _MOST) -> Iterable[str]:
        """Names that hold ``piece``, the first so many."""
        at, seen = self._text.find(piece), 0
        while at >= 0 and seen < most:
            start = at + 1 if piece[0] == "\n" else self._text.rfind("\n", 0, at) + 1
            end = self._text.find("\n", max(at + 1, start))
            yield self._text[start:end]
            seen += 1
            at = self._text.find(piece, end)


def _shared(one: str, other: str) -> int:
    """How many characters two names begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _qualified(readable: str) -> str:
    """A demangled name without template arguments and parameters: ``c10::Error::Error``."""
    depth, kept = 0, []
    for character in readable.replace("(anonymous namespace)", "{anonymous}"):
        if character == "<":
            depth += 1
        elif character == ">" and depth:
            depth -= 1
        elif character == "(" and not depth:
            break
        elif not depth:
            kept.append(character)
    return "".join(kept).rpartition(" ")[2].replace("[abi:cxx11]", "")
