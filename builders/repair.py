"""Repair in the target's place: ``auditwheel repair`` with what the pinned torch and its CUDA packages bring left out.

Most wheels of this kind need none: what they link beside the system's libraries, torch brings.  Then the bytes stay as
they are.  auditwheel looks at binaries of the machine that it runs on; of a cross build the true tag alone is given.
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
from qualify.errors import UnavailableError

# The driver's, which no wheel may bundle.
DRIVER = ("libcuda.so*", "libnvidia-*.so*", "libnvcuvid.so*")
FOLDER = "repaired"  # in the room's output folder
_NOTHING_TO_DO = ("This does not look like a platform wheel", "no ELF", "pure wheel")

# Runs auditwheel on each wheel and says in one line of JSON what came of it: names of members before and after.
_PROGRAM = """
import json, os, subprocess, sys, zipfile
out, exclude = sys.argv[1], json.loads(sys.argv[2])
wheel = next(name for name in sorted(os.listdir(out)) if name.endswith(".whl"))
target = os.path.join(out, "repaired")
os.makedirs(target, exist_ok=True)
options = [part for name in exclude for part in ("--exclude", name)]
environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"])
done = subprocess.run([sys.executable, "-m", "auditwheel", "repair", *options, "-w", target, os.path.join(out, wheel)],
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
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

    :raises UnavailableError: auditwheel could not be run.
    """
    if plan.repair != "auditwheel":
        return Repaired("", (), 0, "the matrix asks for the true tag alone")
    if room.machine != plan.machine:
        return Repaired("", (), 0, f"a cross build: auditwheel runs on {room.machine} and can't load {plan.machine}'s")
    if not prepared.repair_python:
        return Repaired("", (), 0, "the host's environment was used as it is; no auditwheel was installed")
    exclude = excluded(prepared.provided_libraries)
    version = dict(prepared.repair_tools).get("auditwheel", "")
    lines: list[str] = []
    program = (prepared.repair_python, "-I", "-c", _PROGRAM, room.paths.out, json.dumps(exclude))
    room.run(Step("repair", program, folder=room.paths.out), listening(lines, log.line))
    try:
        answer = json.loads(next(line for line in reversed(lines) if line.startswith('{"')))
    except (StopIteration, ValueError) as error:
        raise UnavailableError(
            f"auditwheel gave no answer: {lines[-1] if lines else 'no word'}", where="repair", action=f"see {log.path}"
        ) from error
    tool = f"auditwheel {version}".strip()
    if answer["code"] != 0:
        said = next((text for text in reversed(lines) if text.strip() and not text.startswith('{"')), "")
        return Repaired(tool, (), len(exclude), f"auditwheel would not: {said.strip()}")
    bundled = tuple(answer["bundled"])
    if not bundled:
        return Repaired(tool, (), len(exclude), "nothing to bundle: the bytes stay as they were compiled")
    log.say(f"repair: bundled {', '.join(bundled)}")
    return Repaired(tool, bundled, len(exclude), f"bundled {len(bundled)} libraries", f"{FOLDER}/{answer['made'][0]}")


def excluded(provided: Sequence[str]) -> list[str]:
    """What auditwheel leaves out: the driver's, and what torch and its CUDA packages bring, version and all."""
    return [*DRIVER, *sorted(set(provided))]
