"""The CUDA toolkit out of PyPI's packages: the same on every engine and machine.

Exact pins are data, one row per toolkit.  They are needed: nvidia-cuda-nvcc alone leaves its sisters open, takes
the newest of them, and headers of 13.5 then fail under a compiler of 13.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from qualify.errors import ConfigurationError

# Toolkit -> distribution -> version, as `pip install cuda-toolkit[...]==<toolkit>` resolved them on both machines.
PINS = MappingProxyType(
    {
        "13.0.3": MappingProxyType(
            {
                "nvidia-cuda-nvcc": "13.0.88",
                "nvidia-nvvm": "13.0.88",
                "nvidia-cuda-crt": "13.0.88",
                "nvidia-cuda-runtime": "13.0.96",
                "nvidia-cuda-cccl": "13.0.85",
            }
        ),
    }
)
# What a cross build takes from the target's wheels: all that is linked or included, nothing that runs.
_OF_THE_TARGET = ("nvidia-cuda-crt", "nvidia-cuda-runtime", "nvidia-cuda-cccl")


@dataclass(frozen=True, slots=True)
class Toolkit:
    """The requirements that make a toolkit; ``target`` are those of the target's machine in a cross build."""

    version: str
    requirements: tuple[str, ...]
    target: tuple[str, ...] = ()
    target_platforms: tuple[str, ...] = ()  # pip's platform tags for ``target``


def toolkit(version: str, extras: tuple[str, ...], *, cross_to: str = "") -> Toolkit:
    """The packages of one toolkit.

    :param version: "13.0.3".
    :param extras: of the ``cuda-toolkit`` distribution: nvcc, cudart, cccl, …
    :param cross_to: the machine that is compiled for, where it isn't the one that compiles.
    :raises ConfigurationError: no row of :data:`PINS` for it.
    """
    pins = PINS.get(version)
    if pins is None:
        raise ConfigurationError(
            f"no exact pins are known for CUDA toolkit {version}",
            where="toolkit",
            expected=", ".join(PINS),
            action="add a row to builders/toolkit.py",
        )
    exact = tuple(f"{name}=={pins[name]}" for name in pins)
    whole = f"cuda-toolkit[{','.join(extras)}]=={version}"
    if not cross_to:
        return Toolkit(version, (whole, *exact))
    target = tuple(f"{name}=={pins[name]}" for name in _OF_THE_TARGET)
    # The toolkit's own wheels bear the first tag, torch's the second.
    return Toolkit(version, (whole, *exact), target, (f"manylinux2014_{cross_to}", f"manylinux_2_28_{cross_to}"))


def pinned_toolkit(requested: str) -> str:
    """The toolkit of :data:`PINS` that ``13.0`` or ``13.0.3`` means; ``requested`` itself where none is known."""
    known = [version for version in PINS if version == requested or version.startswith(requested + ".")]
    return known[-1] if known else requested
