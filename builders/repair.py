"""Repair in the target's place: ``auditwheel repair`` with what the pinned torch and its CUDA packages bring left out.

Most wheels of this kind need none: what they link beside the system's libraries, torch brings.  Then the bytes stay as
they are.  A library that nobody brings and that isn't in the place stops the build.  What a cross build would have to
bundle lies in no place of another machine; of such a wheel the true tag alone is given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from builders.engines import Room, Step
from builders.environment import Prepared
from builders.plan import Plan
from builders.progress import BuildLog
from builders.stations import listening
from qualify.errors import BuildError, UnavailableError

# The driver's, which no wheel may bundle.
DRIVER = (
    *("libcuda.so*", "libcudadebugger.so*", "libnvidia-*.so*", "libnvcuvid.so*", "libnvoptix.so*", "libGLX_nvidia.so*"),
    *("libEGL_nvidia.so*", "libGLESv*_nvidia.so*", "libnvscf.so*", "libnvml.so*"),
)
FOLDER = "repaired"  # in the room's output folder
# What auditwheel says of a wheel that no policy fits as it is; the true tag then says why, and the bytes stay.
_NO_POLICY = (
    "This does not look like a platform wheel",
    "cannot repair",  # … "to … ABI because of the presence of too-recent versioned symbols"
    "too-recent versioned symbols",
    "Invalid binary wheel",
    "couldn't detect libc",  # nothing in it calls the C library
)
_NOWHERE = "could not be located"

# Runs auditwheel on each wheel and says in one line of JSON what came of it: names of members before and after.
_PROGRAM = """
import json, os, re, shutil, subprocess, sys, zipfile
out, exclude = sys.argv[1], json.loads(sys.argv[2])
wheel = next(name for name in sorted(os.listdir(out)) if name.endswith(".whl"))
target = os.path.join(out, "repaired")
shutil.rmtree(target, ignore_errors=True)
os.makedirs(target)
options = [part for name in exclude for part in ("--exclude", name)]
environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"])
def audit(*words):
    return subprocess.run([sys.executable, "-m", "auditwheel", "repair", *words],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
ask = [*options, "-w", target, os.path.join(out, wheel)]
done = audit(*ask)
if done.returncode and "couldn't detect libc" in done.stdout:
    # An extension that needs nothing of the C library. A policy says which one that is; the newest asks least.
    known = re.findall(r"manylinux_2_(\\d+)_(\\w+)", audit("--help").stdout)
    release, machine = max((int(release), machine) for release, machine in known)
    done = audit(*ask, "--plat", "manylinux_2_%d_%s" % (release, machine))
sys.stdout.write(done.stdout)
made = [name for name in sorted(os.listdir(target)) if name.endswith(".whl")]
names = lambda path: set(zipfile.ZipFile(path).namelist())
bundled = []
if done.returncode == 0 and made:
    libraries = lambda path: {name for name in names(path) if ".libs/" in name and ".so" in name}
    bundled = sorted(libraries(os.path.join(target, made[0])) - libraries(os.path.join(out, wheel)))
print("\\n" + json.dumps({"code": done.returncode, "made": made[:1], "bundled": bundled}))
"""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of the wheel: ``file`` is the repaired one in the room's output folder, "" where it stayed."""

    tool: str  # "auditwheel 6.8.2"; "" where it was not asked
    bundled: tuple[str, ...]  # members that were put into it
    excluded: int  # patterns of libraries that were left out
    said: str  # for people
    file: str = ""


def repair_in(room: Room, prepared: Prepared, plan: Plan, log: BuildLog) -> Repaired:
    """Repair the wheel of the room's output folder, where the plan wants that and it can be done here.

    :raises BuildError: the wheel needs a library that nobody brings and that isn't here, or auditwheel stumbled.
    :raises UnavailableError: auditwheel could not be run.
    """
    if plan.repair != "auditwheel":
        return Repaired("", (), 0, "the matrix asks for the true tag alone")
    if room.machine != plan.machine:
        return Repaired(
            "", (), 0, f"a cross build: libraries of {plan.machine} to bundle lie on no {room.machine} machine"
        )
    if not prepared.repair_python:
        return Repaired("", (), 0, "the host's environment was used as it is; no auditwheel was installed")
    exclude = excluded(prepared.provided_libraries)
    version = dict(prepared.repair_tools).get("auditwheel", "")
    lines: list[str] = []
    program = (prepared.repair_python, "-I", "-c", _PROGRAM, room.paths.out, json.dumps(exclude))
    room.run(Step("repair", program, folder=room.paths.out), listening(lines, log.line))
    try:
        answer = json.loads(next(line for line in reversed(lines) if line.startswith('{"')))
        code, made, bundled = int(answer["code"]), list(answer["made"]), tuple(map(str, answer["bundled"]))
    except (StopIteration, ValueError, KeyError, TypeError) as error:
        raise UnavailableError(
            f"auditwheel gave no answer: {lines[-1] if lines else 'no word'}", where="repair", action=f"see {log.path}"
        ) from error
    tool = f"auditwheel {version}".strip()
    if code != 0:
        return Repaired(tool, (), len(exclude), _would_not(lines, log))
    if not bundled:
        return Repaired(tool, (), len(exclude), "nothing to bundle: the bytes stay as they were compiled")
    log.say(f"repair: bundled {', '.join(bundled)}")
    return Repaired(tool, bundled, len(exclude), f"bundled {len(bundled)} libraries", f"{FOLDER}/{made[0]}")


def _would_not(lines: Sequence[str], log: BuildLog) -> str:
    """Why auditwheel left a wheel as it is.

    :raises BuildError: it did not leave it for want of a policy.
    """
    said = [text.strip() for text in lines if text.strip() and not text.startswith('{"')]
    nowhere = next((text for text in said if _NOWHERE in text), "")
    if nowhere:
        raise BuildError(
            f"the wheel can't be repaired: {nowhere.rpartition('because ')[2] or nowhere}",
            where="repair",
            expected="every library that the wheel needs in the target's place, or brought by torch",
            action="install it in the base image or link it statically; `repair: tag` of the matrix bundles nothing",
        )
    policy = next((text for text in said if any(words in text for words in _NO_POLICY)), "")
    if policy:
        return f"auditwheel would not: {policy}"
    raise BuildError(
        f"auditwheel failed: {said[-1] if said else 'no word'}",
        where="repair",
        expected="a repaired wheel, or why there is none",
        action=f"see {log.path}; `repair: tag` of the matrix goes without it",
    )


def excluded(provided: Sequence[str]) -> list[str]:
    """What auditwheel leaves out: the driver's, and what torch and its CUDA packages bring, version and all."""
    return [*DRIVER, *sorted(set(provided))]
