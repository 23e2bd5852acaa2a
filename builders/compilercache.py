"""The compiler cache of a build: which variables switch it on, and what it did.

ccache holds a compile against the compiler's own bytes (``CCACHE_COMPILERCHECK=content``) and all its flags, so a hit
is what this compiler would have made with these flags.  CMake is told by its launcher variables.  torch's own builder
has none: it gets wrappers for the compilers, and for nvcc one that says the options for dependencies in the words that
ccache knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from builders.engines import Room, Step
from builders.engines.docker_relay import inside
from builders.plan import Plan
from qualify.matrix.local import LocalSettings

_LOG = "cache-statistics.log"
_SIZE = "20G"
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
exec ccache "$CUDA_HOME/bin/nvcc" "$@"
"""
# One word for the compiler: torch asks the first word of CXX for its version.
_PLAIN = '#!/bin/sh\nexec ccache {} "$@"\n'
# Counters of ccache that say what became of a compile.
HITS = ("direct_cache_hit", "preprocessed_cache_hit")
MISSES = ("cache_miss",)


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What the cache did for one build; ``tool`` is "" where there was none, and ``why`` says so."""

    tool: str
    hits: int = 0
    misses: int = 0
    uncacheable: int = 0  # links, and compiles that ccache doesn't take
    server: str = ""
    why: str = ""


def cache_variables(plan: Plan, room: Room, local: LocalSettings, work: Path) -> dict[str, str]:
    """The variables of the compile; {} where the plan wants no cache, or the room has no ccache.

    What the cache needs is put into the room.
    """
    if plan.compiler_cache != "ccache" or not version_in(room):
        return {}
    variables = {
        "CCACHE_DIR": f"{room.paths.cache}/ccache",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_MAXSIZE": _SIZE,
        "CCACHE_STATSLOG": f"{room.paths.tools}/{_LOG}",
        # The local engine's folders differ from build to build.
        "CCACHE_BASEDIR": room.paths.source,
        "CCACHE_NOHASHDIR": "1",
    }
    if local.compiler_cache is not None and room.engine == "docker":
        server = inside(local.compiler_cache.server)
        variables.update(CCACHE_REMOTE_STORAGE=server, CCACHE_SECONDARY_STORAGE=server)
    if any(tool.name == "cmake" for tool in plan.tools):
        names = ("C", "CXX", "CUDA")
        return {**variables, **{f"CMAKE_{name}_COMPILER_LAUNCHER": "ccache" for name in names}}
    folder = work / "cache"
    folder.mkdir(parents=True)
    for name, text in {"nvcc": WRAPPER, "gcc": _PLAIN.format("gcc"), "g++": _PLAIN.format("g++")}.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    place = f"{room.paths.tools}/cache"
    room.put(folder, place)
    return {**variables, "CC": f"{place}/gcc", "CXX": f"{place}/g++", "PYTORCH_NVCC": f"{place}/nvcc"}


def version_in(room: Room) -> str:
    """ccache's version in the room; "" where it has none."""
    lines: list[str] = []
    outcome = room.run(Step("ccache", ("sh", "-c", "command -v ccache >/dev/null && ccache --version")), lines.append)
    return next((line.rsplit(" ", 1)[-1] for line in lines if line.startswith("ccache version")), "") * (
        outcome.code == 0
    )


def cache_use(plan: Plan, room: Room, variables: Mapping[str, str]) -> CacheUse:
    """What the cache did since the build folder was made, as its own log of statistics counts."""
    if not variables:
        why = "the plan wants none" if not plan.compiler_cache else "no ccache in the place of the build"
        return CacheUse("", why=why)
    lines: list[str] = []
    command = ("sh", "-c", f"cat '{variables['CCACHE_STATSLOG']}' 2>/dev/null || true")
    room.run(Step("ccache", command), lines.append)
    return counted(lines, f"ccache {version_in(room)}", variables.get("CCACHE_REMOTE_STORAGE", ""))


def counted(lines: list[str], tool: str, server: str = "") -> CacheUse:
    """From ``CCACHE_STATSLOG``: a comment for each call, then the counters that it moved, one on a line."""
    calls = sum(line.startswith("#") for line in lines)
    counters = Counter(line.strip() for line in lines if line and not line.startswith("#"))
    hits = sum(counters[name] for name in HITS)
    misses = sum(counters[name] for name in MISSES)
    return CacheUse(tool, hits, misses, max(0, calls - hits - misses), server)
