"""The compiler cache of a build: which variables switch it on, and what it did.

ccache holds a compile against the compiler's own bytes (``CCACHE_COMPILERCHECK=content``) and all its flags, so a hit
is what this compiler would have made with these flags.  Of CUDA it knows nvcc alone, which only calls the compilers:
their bytes count as further inputs of every compile.  CMake is told by its launcher variables.  torch's own builder has
none: it gets wrappers for the compilers, and for nvcc one that says the options for dependencies in the words that
ccache knows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from builders.engines import Room, Step
from builders.engines.docker_relay import inside
from builders.plan import Plan
from qualify.errors import UnavailableError
from qualify.matrix.local import LocalSettings

_LOG = "cache-statistics.log"
_SETTINGS = "ccache.conf"
_SIZE = "20G"
# The first ccache that counts by itself what became of each compile, and the first that calls a shared one so.
_OLDEST = (4, 4)
_REMOTE_SINCE = (4, 7)
# What nvcc calls.  Each is a package of its own in the package index, so one nvcc may stand before others of them.
CUDA_PARTS = (
    "nvvm/bin/cicc",
    "nvvm/libdevice/libdevice.10.bc",
    "bin/cudafe++",
    "bin/fatbinary",
    "bin/nvcc.profile",
    "bin/ptxas",
)
WRAPPER = """\
#!/bin/sh
# ccache knows nvcc's options for dependencies by their short names alone.
for argument do
    shift
    case "$argument" in
        --generate-dependencies-with-compile) set -- "$@" -MD ;;
        --dependency-output) set -- "$@" -MF ;;
        --dependency-output=*) set -- "$@" -MF "${argument#*=}" ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec ccache {} "$@"
"""
# One word for the compiler: torch asks the first word of CXX for its version.
_PLAIN = '#!/bin/sh\nexec ccache {} "$@"\n'
# Counters of ccache that say what became of a compile.
HITS = ("direct_cache_hit", "preprocessed_cache_hit")
MISSES = ("cache_miss",)
REMOTE_FAULTS = ("remote_storage_error", "remote_storage_timeout")


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What the cache did for one build; ``tool`` is "" where there was none, and ``why`` says so."""

    tool: str
    hits: int = 0
    misses: int = 0
    uncacheable: int = 0  # links, and compiles that ccache doesn't take
    server: str = ""
    why: str = ""


def cache_variables(
    plan: Plan, room: Room, local: LocalSettings, work: Path, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of the compile; {} where the plan wants no cache, or the room has no ccache that counts.

    What the cache needs is put into the room.  A shared server's address, which may hold a password, is in a file
    there and in no variable.

    :param variables: of the compile; compilers and launchers that they name stay the ones that are called.
    """
    given = variables or {}
    version = version_in(room) if plan.compiler_cache == "ccache" else ""
    if not version or number_of(version) < _OLDEST:
        return {}
    place = f"{room.paths.tools}/cache"
    found = {
        "CCACHE_DIR": f"{room.paths.cache}/ccache",
        "CCACHE_CONFIGPATH": f"{place}/{_SETTINGS}",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_MAXSIZE": _SIZE,
        "CCACHE_STATSLOG": f"{room.paths.tools}/{_LOG}",
        # The local engine's folders differ from build to build.
        "CCACHE_BASEDIR": room.paths.source,
        "CCACHE_NOHASHDIR": "1",
    }
    if parts := _cuda_parts(room, given.get("CUDA_HOME", "")):
        found["CCACHE_EXTRAFILES"] = ":".join(parts)
    server = inside(local.compiler_cache.server) if local.compiler_cache is not None and room.engine == "docker" else ""
    word = "remote_storage" if number_of(version) >= _REMOTE_SINCE else "secondary_storage"
    files = {_SETTINGS: f"{word} = {server}\n" if server else ""}
    if any(tool.name == "cmake" for tool in plan.tools):
        launchers = {f"CMAKE_{name}_COMPILER_LAUNCHER": "ccache" for name in ("C", "CXX", "CUDA")}
        found.update({name: value for name, value in launchers.items() if name not in given})
    else:
        gnu = f"{plan.machine}-linux-gnu-" if room.machine != plan.machine else ""
        files["cc"] = _PLAIN.format(given.get("CC") or f"{gnu}gcc")
        files["c++"] = _PLAIN.format(given.get("CXX") or f"{gnu}g++")
        files["nvcc"] = WRAPPER.replace("{}", given.get("PYTORCH_NVCC") or '"$CUDA_HOME/bin/nvcc"')
        found.update(CC=f"{place}/cc", CXX=f"{place}/c++", PYTORCH_NVCC=f"{place}/nvcc")
    _put(room, files, work / "cache", place)
    return found


def _put(room: Room, files: Mapping[str, str], folder: Path, place: str) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o644 if name == _SETTINGS else 0o755)
    room.put(folder, place)


def _cuda_parts(room: Room, cuda_home: str) -> list[str]:
    """The parts of the toolkit that are there; ccache takes a missing one for a fault of every compile.

    :raises UnavailableError: the room does not say.
    """
    if not cuda_home:
        return []
    lines: list[str] = []
    look = 'for file do [ -f "$file" ] && echo "$file"; done; exit 0'
    outcome = room.run(
        Step("ccache", ("sh", "-c", look, "look", *(f"{cuda_home}/{part}" for part in CUDA_PARTS))), lines.append
    )
    if outcome.code != 0:
        raise UnavailableError("the room does not say which compilers CUDA has", where="compiler cache")
    return [line for line in lines if line.startswith(f"{cuda_home}/")]


def number_of(version: str) -> tuple[int, ...]:
    """``"4.8+really4.7.5"`` -> (4, 8)."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def version_in(room: Room) -> str:
    """ccache's version in the room; "" where it has none."""
    lines: list[str] = []
    outcome = room.run(Step("ccache", ("sh", "-c", "command -v ccache >/dev/null && ccache --version")), lines.append)
    said = next((line.rsplit(" ", 1)[-1] for line in lines if line.startswith("ccache version")), "")
    return said if outcome.code == 0 else ""


def cache_use(plan: Plan, room: Room, variables: Mapping[str, str]) -> CacheUse:
    """What the cache did since the build folder was made, as its own log of statistics counts.

    :param variables: what :func:`cache_variables` gave.
    """
    if not variables:
        wanted = f"no ccache {_OLDEST[0]}.{_OLDEST[1]} or newer in the place of the build"
        return CacheUse("", why=wanted if plan.compiler_cache else "the plan wants none")
    lines: list[str] = []
    command = 'cat "$1"; cat "$2" 2>/dev/null; exit 0'
    files = (variables["CCACHE_CONFIGPATH"], variables["CCACHE_STATSLOG"])
    room.run(Step("ccache", ("sh", "-c", command, "count", *files)), lines.append)
    shared = next((line.partition("_storage = ")[2] for line in lines if "_storage = " in line), "")
    return counted(lines, f"ccache {version_in(room)}", urlsplit(shared).scheme)


def counted(lines: list[str], tool: str, server: str = "") -> CacheUse:
    """From ``CCACHE_STATSLOG``: a comment for each call, then the counters that it moved, one on a line.

    :param server: the kind of the shared cache; where it lies is this site's own.
    """
    calls = sum(line.startswith("#") for line in lines)
    counters = Counter(line.strip() for line in lines if line and not line.startswith("#"))
    hits = sum(counters[name] for name in HITS)
    misses = sum(counters[name] for name in MISSES)
    faults = sum(counters[name] for name in REMOTE_FAULTS)
    why = f"the shared cache did not answer {faults} times" if server and faults else ""
    return CacheUse(tool, hits, misses, max(0, calls - hits - misses), server, why)
