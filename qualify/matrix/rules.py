"""What must agree inside a matrix, beyond the shape of each field.  Pure: from values to problems."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from qualify.matrix.document import Document, Path, Problem, dotted
from qualify.matrix.model import BUILD_MODES, Control, GitSource, Matrix, Target, Waiver

# The first toolkit whose nvcc and driver name the device so: Thor is 10.1 up to 12.9 and 11.0 from 13.0 on.
_FIRST_TOOLKIT = {"9.0": "11.8", "10.0": "12.8", "10.3": "12.9", "11.0": "13.0", "12.0": "12.8", "12.1": "12.9"}
# At the start of a value, or after what parts a value into words; the slashes of https://host/x are none of these.
_ABSOLUTE = re.compile(r"(?:^|(?<=[\s=:;,\"']))(?:/(?=[\w.])|~(?=[/\w]|$)|[A-Za-z]:[\\/](?![/])|file:)")
_MEMBER_SUFFIX = re.compile(r"\.(abi3\.|cpython-[^/]*\.|cp[0-9]+[^/]*\.)?(so|pyd|dll)$")
_ARCHITECTURE = re.compile(r"([0-9]+)\.([0-9])[af]?(\+PTX)?")
_TAKEN_LABEL = re.compile(r"g[0-9a-f]{4,40}|d[0-9]{8}|cu[0-9]{2,4}")


def absolute_paths(document: Document) -> Iterator[Problem]:
    """A place of one machine belongs in matrix.local.yaml: refused in every value and key."""
    for path, text in _texts(document.value, (), keys=True):
        if _ABSOLUTE.search(text):
            yield Problem(
                document.line(path),
                dotted(path),
                f'"{text}" holds a path of one machine',
                "put it into matrix.local.yaml, or write it relative to this file",
            )


def unquoted_commits(document: Document) -> Iterator[Problem]:
    """A commit that is all digits, or digits and an e, is a number in YAML: so all of them stand in quotes."""
    for path, text in _texts(document.value, (), keys=False):
        if path[-1] == "commit" and path not in document.quoted and path not in document.typed:
            yield Problem(document.line(path), dotted(path), "a commit stands in quotes", f'write "{text}"')


def consistency(matrix: Matrix, document: Document) -> Iterator[Problem]:
    """Every rule that ties fields to each other."""

    def problem(path: Path, what: str, action: str = "") -> Problem:
        return Problem(document.line(path), dotted(path), what, action)

    normal = canonicalize_name(matrix.project.name)
    if matrix.project.name != normal:
        yield problem(("project", "name"), f'the normalised name is "{normal}"', f'write "{normal}"')
    yield from _pin(matrix, problem)
    yield from _waivers(matrix.waivers, problem, matrix.targets, pinned=matrix.pin.commit is not None)
    for identifier, target in matrix.targets.items():
        for path, what, action in _target(identifier, target, matrix):
            yield problem(("targets", identifier, *path), what, action)
    for path, expectations in (
        (("extensions",), matrix.extensions),
        *((("targets", name, "extensions"), target.extensions) for name, target in matrix.targets.items()),
    ):
        for member in expectations:
            if suffix := _MEMBER_SUFFIX.search(member):
                yield problem((*path, member), f"members are named without the suffix {suffix.group()}", "leave it off")
    for identifier in matrix.measured:
        if identifier not in matrix.targets:
            near = difflib.get_close_matches(identifier, matrix.targets, n=1)
            yield problem(
                ("measured", identifier), "no target has this name", f"did you mean {near[0]}?" if near else ""
            )


class _Maker(Protocol):
    def __call__(self, path: Path, what: str, action: str = "") -> Problem: ...


def _pin(matrix: Matrix, problem: _Maker) -> Iterator[Problem]:
    pin = matrix.pin
    if isinstance(pin.source, GitSource):
        if pin.commit is None:
            yield problem(("pin",), "a git source needs a commit", "add commit, with all 40 digits")
        elif len(pin.commit) < 40:
            yield problem(
                ("pin", "commit"),
                f'a git source needs all 40 digits, and "{pin.commit}" has {len(pin.commit)}',
                "write the whole commit",
            )
        sdist = ""
    else:
        if pin.commit is not None and not pin.commit.strip("0"):
            yield problem(("pin", "commit"), "git's null id names no commit", "leave commit out, or write the commit")
        if pin.commit is None and matrix.build.commit_files:
            yield problem(
                ("pin",), "build.commit_files says where the sdist states its commit, and none is pinned", "add commit"
            )
        sdist = (
            pin.source.sdist if pin.source.sdist and not pin.source.sdist.endswith((".tar.gz", ".tgz", ".zip")) else ""
        )
    versions: dict[Path, Version] = {}
    for path, text in ((("pin", "requirement"), pin.requirement), (("pin", "source", "sdist"), sdist)):
        if not text:
            continue
        version = _exact(text, matrix.project.name)
        if version is None:
            yield problem(path, f'"{text}" is no exact requirement', f'write "{matrix.project.name}==VERSION"')
        else:
            versions[path] = version
    if len(set(versions.values())) > 1:
        one, other = (str(version) for version in versions.values())
        yield problem(
            ("pin", "source", "sdist"), f"the requirement says {one} and the sdist {other}", "pin one version"
        )
    for index, mode in enumerate(pin.build_modes):
        if mode not in BUILD_MODES:
            near = difflib.get_close_matches(mode, BUILD_MODES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(BUILD_MODES)}"
            yield problem(("pin", "build_modes", index), f'"{mode}" is no build mode', hint)


def _waivers(
    waivers: Sequence[Waiver], problem: _Maker, targets: Collection[str], *, pinned: bool
) -> Iterator[Problem]:
    """Each is for one wheel or for one pin, and stands once.  Which codes there are is known above this layer."""
    seen: dict[tuple[str, ...], int] = {}
    for index, waiver in enumerate(waivers):
        path: Path = ("waivers", index)
        if waiver.target is not None and waiver.target not in targets:
            near = difflib.get_close_matches(waiver.target, targets, n=1)
            what = f'no target is called "{waiver.target}"'
            yield problem((*path, "target"), what, f"did you mean {near[0]}?" if near else "")
        if waiver.wheel is None and waiver.pin is None:
            yield problem(path, "it holds for nothing", "name the wheel by its sha256 (wheel), or the commit (pin)")
        elif waiver.pin is not None and not pinned:
            yield problem((*path, "pin"), "the pin asserts no commit", "name the wheel by its sha256 (wheel)")
        elif waiver.wheel is not None and waiver.pin is not None:
            yield problem((*path, "pin"), "it names a wheel and a pin", "keep one of them")
        else:
            same = (waiver.code, waiver.member, waiver.wheel or waiver.pin or "", waiver.target or "")
            if same in seen:
                yield problem(path, f"the same waiver as the one in waivers[{seen[same]}]", "keep one of them")
            seen.setdefault(same, index)


def _control(control: Control, target: Target, project: str) -> Iterator[tuple[Path, str, str]]:
    """An exact requirement, or a relative path with its sha256: nothing else says which bytes a path means."""
    path: Path = ("control", "wheel")
    if not control.wheel.endswith(".whl"):
        if _exact(control.wheel, project) is None:
            what = f'"{control.wheel}" is neither an exact requirement nor a wheel\'s path'
            yield path, what, f'write "{project}==VERSION" or the path of a .whl'
        return
    name = control.wheel.rpartition("/")[2]
    try:
        found, _, _, tags = parse_wheel_filename(name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        yield path, f'"{name}" is no wheel\'s name: {error}', "write NAME-VERSION-TAGS.whl"
        return
    if found != project:
        yield path, f'"{name}" is a wheel of {found}', f"name a wheel of {project}"
    elif not any(tag.platform == "any" or tag.platform.endswith(f"_{target.machine}") for tag in tags):
        yield path, f'"{name}" is for another machine than {target.machine}', "name one for the target's machine"
    if control.sha256 is None:
        yield ("control",), "nothing says which bytes the file has to be", "add its sha256"


def _exact(text: str, project: str) -> Version | None:
    """The version of ``project==VERSION``; None for anything else."""
    try:
        requirement = Requirement(text)
        (specifier,) = requirement.specifier
        if requirement.url or specifier.operator != "==" or canonicalize_name(requirement.name) != project:
            return None
        return Version(specifier.version)
    except (InvalidRequirement, InvalidVersion, ValueError):
        return None


def _target(identifier: str, target: Target, matrix: Matrix) -> Iterator[tuple[Path, str, str]]:
    machine, _, architecture = identifier.rpartition("-sm")
    digits = architecture.rstrip("af")
    capability = f"{digits[:-1]}.{digits[-1]}"
    if machine != target.machine:
        yield ("machine",), f"the target's name says {machine}, and this {target.machine}", "make them agree"
    if capability != target.compute_capability:
        what = f'the target\'s name says "{capability}", and this "{target.compute_capability}"'
        yield ("compute_capability",), what, "make them agree"
    if not (target.base.image or target.base.bootstrap):
        yield ("base",), "neither an image nor a bootstrap is named", "name one of them"
    yield from _toolkit(target)
    yield from _architectures(target, matrix)
    preferred = target.ceilings.preferred_glibc
    if preferred and Version(preferred) > Version(target.ceilings.glibc):
        what = f"{preferred} is above the ceiling {target.ceilings.glibc}"
        yield ("ceilings", "preferred_glibc"), what, "prefer no more than is allowed"
    if target.label:
        yield from _label(target.label)
    if target.torch:
        try:
            named = canonicalize_name(Requirement(target.torch).name)
        except InvalidRequirement:
            yield ("torch",), f'"{target.torch}" is no requirement', 'write "torch==VERSION"'
        else:
            if named != "torch":
                yield ("torch",), f'"{target.torch}" names {named}', 'write "torch==VERSION"'
    if target.control is not None:
        yield from _control(target.control, target, matrix.project.name)
    if matrix.build.torch and not target.torch:
        yield ("torch",), "the build needs torch, and no requirement is given", 'write "torch==VERSION"'


def _toolkit(target: Target) -> Iterator[tuple[Path, str, str]]:
    toolkit, driver = Version(target.toolkit), Version(target.driver.oldest_cuda)
    if toolkit.major != driver.major:
        what = f"a driver of CUDA {driver} runs no code of toolkit {toolkit}: their majors differ"
        yield ("driver", "oldest_cuda"), what, "name a driver of the toolkit's CUDA major"
    first = _FIRST_TOOLKIT.get(target.compute_capability)
    if first and toolkit < Version(first):
        what = f"toolkit {toolkit} doesn't know compute capability {target.compute_capability}"
        yield ("toolkit",), what, f"{first} is the first that does"


def unknown_architecture(arch_list: str) -> str | None:
    """The first name in a TORCH_CUDA_ARCH_LIST that is none ("" where the list is empty); None where all are."""
    return next((token for token in _tokens(arch_list) if not _ARCHITECTURE.fullmatch(token)), None)


def _tokens(arch_list: str) -> list[str]:
    return re.split(r"[;\s]+", arch_list.strip())


def _architectures(target: Target, matrix: Matrix) -> Iterator[tuple[Path, str, str]]:
    """The arch list must ask for something of the target's own major; other variables have other spellings."""
    if matrix.build.arch_variable != "TORCH_CUDA_ARCH_LIST":
        return
    major, minor = (int(part) for part in target.compute_capability.split(".")[:2])
    unknown = unknown_architecture(target.arch_list)
    if unknown is not None:
        yield ("arch_list",), f'"{unknown}" is no architecture of TORCH_CUDA_ARCH_LIST', 'write "9.0" or "12.1"'
        return
    for numbers in map(_ARCHITECTURE.match, _tokens(target.arch_list)):
        if numbers and int(numbers[1]) == major and int(numbers[2]) <= minor:
            return
    what = f'"{target.arch_list}" asks for nothing of compute capability {target.compute_capability}'
    yield ("arch_list",), what, f'add "{target.compute_capability}"'


def _label(label: str) -> Iterator[tuple[Path, str, str]]:
    try:
        local = Version(f"1+{label}").local
    except InvalidVersion:
        yield ("label",), f'"{label}" is no part of a local version', "use letters, digits and single dots"
        return
    if local != label:
        yield ("label",), f'"{label}" is spelt "{local}" in a version', f'write "{local}"'
    for part in label.split("."):
        if part in BUILD_MODES or _TAKEN_LABEL.fullmatch(part):
            what = f'"{part}" already means something in a version'
            yield ("label",), what, "choose a word that is no commit, date, toolkit or build mode"


def _texts(value: object, path: Path, *, keys: bool) -> Iterator[tuple[Path, str]]:
    """Every text value with its path; with ``keys`` the keys as well."""
    if isinstance(value, dict):
        for key, item in value.items():
            if keys:
                yield (*path, key), key
            yield from _texts(item, (*path, key), keys=keys)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index), keys=keys)
    elif isinstance(value, str) and path:
        yield path, value
