"""The judgement on what surrounds the tools: machine, environment, interpreter, requirements, torch, sources, room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from builders.externals import External
from builders.preflight_items import Facts, Item, Status
from builders.requirements import Environment, Unmet, asked_by_backend, parsed, unmet
from qualify.lines import last_line

if TYPE_CHECKING:
    from builders.plan import Plan

GB = 10**9


def judge_machine(plan: Plan, facts: Facts) -> tuple[Item, ...]:
    """Whether a build for the target's machine can run here, in the way that the plan says."""
    here = str(facts["machine"])
    if plan.machine == here:
        return (Item("machine", Status.FOUND, version=here),)
    if plan.how == "cross":
        return (Item("machine", Status.FOUND, version=f"{here}, cross-compiling for {plan.machine}"),)
    if plan.how == "emulate":
        if plan.machine in facts["emulated"]:
            return (_emulating(plan.machine, facts),)
        return (
            Item(
                "machine",
                Status.ABSENT,
                version=here,
                expected=f"an emulator for {plan.machine}",
                action=f"register qemu-{plan.machine} with binfmt_misc (the qemu-user-static package)",
            ),
        )
    return (
        Item(
            "machine",
            Status.UNMET,
            version=here,
            expected=plan.machine,
            action=f"a native build for {plan.machine} cannot happen on this {here} machine: run it on {plan.machine}, "
            "or ask for --how cross or --how emulate where the project can do that",
        ),
    )


def _emulating(machine: str, facts: Facts) -> Item:
    here = str(facts["machine"])
    said = f"{here}, emulating {machine}"
    if machine in facts.get("emulated_in_containers", [machine]):
        return Item("machine", Status.FOUND, version=said)
    return Item(
        "machine",
        Status.UNMET,
        version=f"{said} outside containers alone",
        expected=f"an emulator for {machine} that containers see (binfmt_misc with flag F)",
        action=f"register qemu-{machine} anew with flag F: a static qemu, `update-binfmts --enable qemu-{machine}` of "
        "qemu-user-static, or `--fix-binary yes`",
    )


def judge_environment(facts: Facts) -> tuple[Item, ...]:
    """Variables that replace compiled code or the version behind the build's back, and are set."""
    return tuple(
        Item(
            name,
            Status.UNMET,
            version=f"{name}={value}",
            expected="not set",
            action=f"unset {name}; with it the build would not compile what the plan says",
        )
        for name, value in sorted(facts["environment"].items())
    )


def judge_interpreter(series: Sequence[str], facts: Facts) -> tuple[Item, ...]:
    """The Python that builds; it must be one that the target is for."""
    interpreter = facts.get("interpreter")
    expected = f"Python {' or '.join(series)}"
    if not interpreter:
        said = last_line(str(facts.get("interpreter_problem", ""))) or "no answer"
        return (Item("python", Status.ABSENT, expected=expected, action=f"name one that runs with --python; {said}"),)
    version = str(interpreter["version"])
    if ".".join(version.split(".")[:2]) not in series:
        action = "build with a Python that the target names"
        return (Item("python", Status.WRONG_VERSION, interpreter["executable"], version, expected, action),)
    return (Item("python", Status.FOUND, interpreter["executable"], version),)


def judge_requirements(plan: Plan, facts: Facts, *, environment_follows: bool = False) -> tuple[Item, ...]:
    """Each PEP 518 requirement, the static ones one by one; then what the backend's hook asks for besides."""
    follows = "is installed into the isolated environment, and looked at there before the compile"
    interpreter = facts.get("interpreter")
    if environment_follows or not interpreter:
        why = follows if environment_follows else "because the interpreter could not be asked"
        return tuple(
            Item(
                requirement_name(text, plan),
                Status.NOT_LOOKED_AT,
                expected=text,
                action=why,
                optional=environment_follows,
            )
            for text in plan.requirements
        )
    installed = Environment.of(interpreter)
    static = [item for text in plan.requirements for item in _judge_requirement(text, plan, installed, interpreter)]
    missing = [item.name for item in static if item.refuses]
    # A backend asks again for what the table names already, and two requirements may lack the same third.
    return tuple(dict.fromkeys((*static, *_judge_hook(plan, facts, missing, installed))))


def requirement_name(text: str, plan: Plan) -> str:
    """The project's name; with a word behind it where a tool of the list has that name as well."""
    name = parsed(text).name
    return f"{name} (requirement)" if any(tool.name == name.lower() for tool in plan.tools) else name


def _judge_requirement(text: str, plan: Plan, installed: Environment, interpreter: Facts) -> list[Item]:
    lacking = unmet(text, installed)
    if not lacking:
        version = installed.version(parsed(text).name)
        return [Item(requirement_name(text, plan), Status.FOUND, version=version, expected=text)]
    return [_lacking(one, plan, str(interpreter["executable"])) for one in lacking]


def _lacking(one: Unmet, plan: Plan, python: str) -> Item:
    because = f" (needed by {' -> '.join(one.chain[:-1])})" if len(one.chain) > 1 else ""
    return Item(
        requirement_name(one.requirement, plan),
        Status.UNMET,
        version=one.installed,
        expected=one.requirement + because,
        action=f"{python} -m pip install '{one.requirement}'",
    )


def _judge_hook(plan: Plan, facts: Facts, missing: Sequence[str], installed: Environment) -> tuple[Item, ...]:
    name = "requirements of the build backend"
    if missing:
        listed = ", ".join(missing)
        verb = "is" if len(missing) == 1 else "are"
        return (Item(name, Status.NOT_LOOKED_AT, action=f"because {listed} {verb} missing", optional=True),)
    hook = facts.get("hook")
    if hook is None:
        asked = bool(facts.get("hook_asked"))
        why = "the hook gave no answer" if asked else "because the hook was not to be run"
        return (Item(name, Status.NOT_LOOKED_AT, action=why, optional=not asked),)
    if hook["failed"]:
        last = last_line(str(hook["failed"]))
        return (Item(name, Status.NOT_LOOKED_AT, action=f"because get_requires_for_build_wheel failed: {last}"),)
    answered = Item(name, Status.FOUND, version=f"{len(hook['requirements'])} asked for in {hook['seconds']} s")
    texts = asked_by_backend(facts, plan.torch, plan.without)
    further = [_judge_requirement(text, plan, installed, facts["interpreter"]) for text in texts]
    return (answered, *(item for items in further for item in items))


def judge_torch(plan: Plan, facts: Facts, *, environment_follows: bool = False) -> tuple[Item, ...]:
    """A torch with CUDA, and with the toolkit's CUDA: one without makes builds leave their kernels out in silence."""
    if not plan.torch_cuda:
        return ()
    name = "torch with CUDA"
    wanted = plan.toolkit.version if plan.toolkit else ""
    expected = f"{plan.torch or 'torch'} built with CUDA {wanted}".strip()
    interpreter = facts.get("interpreter")
    if environment_follows:
        action = "is installed into the isolated environment, and looked at there before the compile"
        return (Item(name, Status.NOT_LOOKED_AT, expected=expected, action=action, optional=True),)
    if not interpreter:
        return (Item(name, Status.NOT_LOOKED_AT, action="because the interpreter could not be asked"),)
    torch = interpreter["torch"]
    install = f"{interpreter['executable']} -m pip install '{plan.torch or 'torch'}' (a CUDA {wanted} build)"
    if torch is None:
        return (Item(name, Status.ABSENT, expected=expected, action=install),)
    version = str(torch["version"])
    if not torch["stated"]:
        action = "its version.py does not say which CUDA it was built with"
        return (Item(name, Status.NOT_LOOKED_AT, torch["path"], version, expected, action),)
    if not torch["cuda"]:
        action = f"this torch has no CUDA; a build with it leaves the kernels out: {install}"
        return (Item(name, Status.WRONG_VERSION, torch["path"], version, expected, action),)
    said = f"{version} (CUDA {torch['cuda']})"
    if wanted and str(torch["cuda"]).split(".")[:2] != wanted.split(".")[:2]:
        action = f"torch's CUDA is {torch['cuda']}, the toolkit's {wanted}: {install}"
        return (Item(name, Status.WRONG_VERSION, torch["path"], said, expected, action),)
    return (Item(name, Status.FOUND, torch["path"], said),)


def judge_externals(plan: Plan, facts: Facts, in_store: frozenset[str] = frozenset()) -> tuple[Item, ...]:
    """Every repository that the build would clone: in the store, a local copy, one that answers there, or a hole."""
    items = [_judge_external(external, facts, in_store) for external in plan.needed_externals]
    return (*items, *(Item(text.split(":", 1)[0], Status.NOT_LOOKED_AT, action=text) for text in plan.unread))


def _judge_external(external: External, facts: Facts, in_store: frozenset[str]) -> Item:
    name = f"external source {external.name}"
    wanted = f"{external.repository} at {external.tag}".removesuffix(" at ")
    if external.name in in_store and not external.copy:
        return Item(name, Status.FOUND, "the store", external.commit, wanted)
    if external.copy:
        status = Status.UNMET if external.fault else Status.FOUND
        return Item(name, status, external.copy, external.tag, wanted, external.fault)
    setting = f"give a local copy: external_sources: {{{external.name}: FOLDER}} in matrix.local.yaml" + (
        f" (passed as {external.variable})" if external.variable else ""
    )
    asked = external.fetched_from or external.repository
    remote = facts.get("remotes", {}).get(asked)
    if remote is None:
        return Item(name, Status.ABSENT, version=external.tag, expected=wanted, action=setting)
    if remote["answers"]:
        return Item(name, Status.FOUND, asked, external.tag, wanted)
    return Item(
        name,
        Status.ABSENT,
        version=external.tag,
        expected=wanted,
        action=f"{setting}; the repository does not answer: {remote['said'] or 'no reason given'}",
    )


def judge_resources(facts: Facts, *, memory: int, disk: int) -> tuple[Item, ...]:
    """Room: memory for one compile job at least, and disk for the build.  Bytes; shown in GB of 10**9."""
    known = [value for name in ("available", "limit") if (value := facts["memory"][name]) is not None]
    items = [
        _room("memory", "", min(known) if known else None, memory, "close programs, add swap, or use a larger machine")
    ]
    items += [_room("disk", folder, free, disk, "make room there") for folder, free in facts["disk"].items()]
    return tuple(items)


def _room(name: str, path: str, free: int | None, wanted: int, action: str) -> Item:
    expected = f"{wanted / GB:.0f} GB"
    if free is None:
        return Item(name, Status.NOT_LOOKED_AT, path, expected=expected, action="it could not be read here")
    said = f"{free / GB:.1f} GB free"
    if free < wanted:
        return Item(name, Status.UNMET, path, said, expected, action)
    return Item(name, Status.FOUND, path, said)
