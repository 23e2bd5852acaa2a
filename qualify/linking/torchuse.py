"""How a binary uses torch: not at all, through the stable C interface alone, or through C++ that fits one release.

The stable interface: C functions ``aoti_torch_*`` and ``torch_*``, which every later release of torch 2 exports as well
(torch's documentation, "LibTorch Stable ABI").  Its C++ (``torch::stable``, ``torch::headeronly``) is headers alone and
leaves no reference behind.  A reference to anything of ``at``, ``c10`` or ``torch`` besides binds the binary to the
release that it was compiled against.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from qualify.facts import Elf
from qualify.linking.names import demangled, is_shim, is_std, is_torch_cxx
from qualify.linking.tables import release_of, stable_functions

_TORCH_LIBRARY = re.compile(r"lib(?:c10|torch)(?:_[a-z_]+)?\.so")
_MOST_READ = 200  # names that are read in full
_SPOKEN_OF = re.compile(r"(?<![0-9])(?:2at|3c10|5torch|6caffe2)")
_UNSTABLE = re.compile(r"\b(?:at|c10|caffe2|torch)::")
_HEADERS_ALONE = re.compile(r"\btorch::(?:stable|headeronly)\b")


@dataclass(frozen=True, slots=True)
class TorchUse:
    """What one binary asks torch for."""

    libraries: tuple[str, ...]  # DT_NEEDED of torch's
    shims: tuple[str, ...]  # functions of the stable C interface, without weak ones
    unstable: tuple[str, ...]  # everything else of torch's, mangled

    @property
    def needs_torch(self) -> bool:
        """Whether it does not load without torch."""
        return bool(self.libraries or self.shims or self.unstable)

    @property
    def stable(self) -> bool:
        """Whether it calls torch, and by the stable C interface alone."""
        return bool(self.shims) and not self.unstable

    @property
    def unknown(self) -> tuple[str, ...]:
        """Functions of the stable interface that the kept table does not know: newer than it, as a rule."""
        return tuple(name for name in self.shims if name not in stable_functions())

    def minimum(self) -> tuple[str, tuple[str, ...]]:
        """The least release that has every function it calls, and the functions that ask for it; "" without any."""
        releases = {name: stable_functions()[name] for name in self.shims if name in stable_functions()}
        least = max(releases.values(), key=release_of, default="")
        return least, tuple(name for name, release in releases.items() if release == least)


def torch_use(elf: Elf, own: Collection[str]) -> TorchUse:
    """What a binary asks torch for.

    :param own: names that the wheel itself exports; a wheel with a copy of torch's code asks nobody for it.
    """
    wanted = [each.name for each in elf.imports if not each.weak and each.name not in own]
    unstable = [name for name in wanted if is_torch_cxx(name)]
    if not unstable:
        # A template of the C++ library over torch's types, left to torch to instantiate, is torch's as well.
        spoken = [name for name in wanted if is_std(name) and _SPOKEN_OF.search(name)]
        unstable = [name for name in spoken[:_MOST_READ] if _speaks_of_torch(name)]
    return TorchUse(
        tuple(name for name in elf.needed if _TORCH_LIBRARY.fullmatch(name)),
        tuple(name for name in wanted if is_shim(name)),
        tuple(unstable),
    )


def is_torch_library(name: str) -> bool:
    """Whether a DT_NEEDED entry is one of torch's libraries."""
    return _TORCH_LIBRARY.fullmatch(name) is not None


def _speaks_of_torch(name: str) -> bool:
    return _UNSTABLE.search(_HEADERS_ALONE.sub("", demangled(name))) is not None
