"""The values that CMake variables may have at one place, by the branches that set them; nothing is run."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from builders.externals_cmake import Branch, Command

MAX_DEPTH = 32  # references that are replaced one after another

_REFERENCE = re.compile(r"\$\{([A-Za-z0-9_./+-]+)\}")
_ENV_VALUE = re.compile(r"\$ENV\{([A-Za-z0-9_]+)\}")
_ENV_NAME = re.compile(r"ENV\{([A-Za-z0-9_]+)\}")

Branches = tuple[Branch, ...]


class Settings:
    """Every ``set`` of a list of commands, by name and in order."""

    def __init__(self, commands: Iterable[tuple[Command, Branches]]) -> None:
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._values: defaultdict[str, list[tuple[str, Branches]]] = defaultdict(list)
        for index, (command, branches) in enumerate(commands):
            if command.name == "set" and command.words:
                values = command.words[1:]
                if "CACHE" in values:
                    values = values[: values.index("CACHE")]
                self._places[command.words[0]].append(index)
                self._values[command.words[0]].append((";".join(values), branches))

    def before(self, name: str, index: int) -> Iterator[tuple[str, Branches]]:
        """The settings of ``name`` before the command ``index``, the latest first."""
        if name in self._places:
            for at in reversed(range(bisect_left(self._places[name], index))):
                yield self._values[name][at]

    def resolve(
        self, text: str, index: int, branches: Branches, variables: Mapping[str, str], depth: int = 0
    ) -> Iterator[tuple[str, Branches]]:
        """``text`` with its variables replaced, once for each branch in which they are set differently.

        :param variables: those whose values are known; they win.
        """
        reference = _REFERENCE.search(text)
        if reference is None or depth >= MAX_DEPTH:
            yield text, branches
            return
        name = reference[1]
        found: Iterable[tuple[str, Branches]] = (
            [(variables[name], branches)] if name in variables else list(self._values_at(name, index, branches))
        )
        for value, chosen in found or [("$", branches)]:  # "$": it stays unresolved
            replaced = text[: reference.start()] + value + text[reference.end() :]
            yield from self.resolve(replaced, index, chosen, variables, depth + 1)

    def _values_at(self, name: str, index: int, branches: Branches) -> Iterator[tuple[str, Branches]]:
        """The values that ``name`` may have at ``index``, the latest first, each with the branches that it implies."""
        here = {branch.block: branch.index for branch in branches}
        for value, setting in self.before(name, index):
            if any(here.get(branch.block, branch.index) != branch.index for branch in setting):
                continue
            implied = tuple(branch for branch in setting if branch.block not in here)
            yield value, (*branches, *implied)
            if not implied:
                return

    def variable_before(self, index: int, branches: Branches) -> str:
        """The environment variable that keeps ``index`` from being reached: the nearest ``else`` of a test for one.

        Either the test names it (``DEFINED ENV{X}``), or it tests a variable that was set from it
        (``set(X $ENV{X})``).
        """
        for branch in reversed(branches):
            for condition in reversed(branch.fails):
                if match := _ENV_NAME.search(" ".join(condition)):
                    return match[1]
                for word in condition:
                    for value, _ in self.before(word, index):
                        if match := _ENV_VALUE.fullmatch(value):
                            return match[1]
        return ""
