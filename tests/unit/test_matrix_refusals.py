"""Every refusal of the matrix, with the exact line that a person reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from qualify.errors import ConfigurationError
from qualify.matrix import load

COMMIT = "0123456789abcdef0123456789abcdef01234567"

GOOD = """\
version: 1
project: {name: axpy, import_name: axpy, version_module: axpy/_version.py}
pin:
  repository: https://example.org/axpy
  requirement: ""
  source:
    git: axpy.bundle
  commit: "0123456789abcdef0123456789abcdef01234567"
build:
  torch: false
targets:
  x86_64-sm90:
    machine: x86_64
    compute_capability: "9.0"
    python: ["3.12"]
    base: {bootstrap: debian-12}
    toolkit: "13.0.3"
    arch_list: "9.0"
    ceilings: {glibc: "2.28", glibcxx: "3.4.24"}
    driver: {oldest_cuda: "13.0"}
    extensions:
      axpy/_C: {presence: required, code: native}
"""

KNOWN_TARGET_KEYS = (
    "arch_list, base, ceilings, compute_capability, control, driver, engine, engine_host, extensions, how, label, "
    "machine, not_built, python, toolkit, torch"
)

# (what stands there, what is written instead, the whole message after the file's name)
REFUSALS = {
    "unknown key, near": (
        "    arch_list:",
        "    arch_lst:",
        "18: targets.x86_64-sm90.arch_lst: the key is unknown; did you mean arch_list?",
    ),
    "unknown key, far": (
        '    arch_list: "9.0"',
        '    arch_list: "9.0"\n    zebra: "x"',
        f"19: targets.x86_64-sm90.zebra: the key is unknown; known are {KNOWN_TARGET_KEYS}",
    ),
    "repeated key": (
        '    toolkit: "13.0.3"',
        '    toolkit: "13.0.3"\n    toolkit: "13.1"',
        "18: targets.x86_64-sm90.toolkit: the key is repeated; it stands in line 17 already; keep one of them",
    ),
    "float for a Python version": (
        'python: ["3.12"]',
        "python: [3.10]",
        '15: targets.x86_64-sm90.python[0]: YAML reads 3.10 as the number 3.1; quote it: "3.10"',
    ),
    "float for a compute capability": (
        'compute_capability: "9.0"',
        "compute_capability: 9.0",
        '14: targets.x86_64-sm90.compute_capability: YAML reads 9.0 as the number 9.0; quote it: "9.0"',
    ),
    "octal": (
        '"0123456789abcdef0123456789abcdef01234567"',
        "0123456",
        '8: pin.commit: YAML reads 0123456 as the number 42798; quote it: "0123456"',
    ),
    "no": (
        "git: axpy.bundle",
        "git: no",
        '7: pin.source.git: YAML reads no as false; quote it: "no"',
    ),
    "a date": (
        "git: axpy.bundle",
        "git: 2026-11-30",
        '7: pin.source.git: YAML reads 2026-11-30 as the date 2026-11-30; quote it: "2026-11-30"',
    ),
    "an integer for a version": (
        'toolkit: "13.0.3"',
        "toolkit: 13",
        '17: targets.x86_64-sm90.toolkit: YAML reads 13 as the number 13; quote it: "13"',
    ),
    "nothing": (
        "git: axpy.bundle",
        "git:",
        '7: pin.source.git: there is no value; write a value, or "" for none',
    ),
    "yes where a boolean belongs": (
        "torch: false",
        "torch: yes",
        '10: build.torch: "yes" is neither true nor false; write true or false',
    ),
    "unquoted commit": (
        '"0123456789abcdef0123456789abcdef01234567"',
        "a123456789abcdef0123456789abcdef01234567",
        '8: pin.commit: a commit stands in quotes; write "a123456789abcdef0123456789abcdef01234567"',
    ),
    "upper-case commit": (
        '"0123456789abcdef0123456789abcdef01234567"',
        '"0123456789ABCDEF0123456789abcdef01234567"',
        '8: pin.commit: "0123456789ABCDEF0123456789abcdef01234567" isn\'t 7 to 40 lower-case hex digits; '
        "write it in lower case",
    ),
    "short commit": (
        '"0123456789abcdef0123456789abcdef01234567"',
        '"012345"',
        '8: pin.commit: "012345" isn\'t 7 to 40 lower-case hex digits; mend it',
    ),
    "abbreviated commit of a git source": (
        '"0123456789abcdef0123456789abcdef01234567"',
        '"0123456789"',
        '8: pin.commit: a git source needs all 40 digits, and "0123456789" has 10; write the whole commit',
    ),
    "absolute path": (
        "git: axpy.bundle",
        "git: /srv/axpy.bundle",
        '7: pin.source.git: "/srv/axpy.bundle" holds a path of one machine; '
        "put it into matrix.local.yaml, or write it relative to this file",
    ),
    "home folder": (
        "git: axpy.bundle",
        "git: ~/axpy.bundle",
        '7: pin.source.git: "~/axpy.bundle" holds a path of one machine; '
        "put it into matrix.local.yaml, or write it relative to this file",
    ),
    "absolute path inside a value": (
        "  torch: false",
        '  torch: false\n  environment: {CMAKE_ARGS: "-DA=/opt/a"}',
        '11: build.environment.CMAKE_ARGS: "-DA=/opt/a" holds a path of one machine; '
        "put it into matrix.local.yaml, or write it relative to this file",
    ),
    "machine against the name": (
        "    machine: x86_64",
        "    machine: aarch64",
        "13: targets.x86_64-sm90.machine: the target's name says x86_64, and this aarch64; make them agree",
    ),
    "capability against the name": (
        'compute_capability: "9.0"',
        'compute_capability: "9.1"',
        '14: targets.x86_64-sm90.compute_capability: the target\'s name says "9.0", and this "9.1"; make them agree',
    ),
    "target's name": (
        "  x86_64-sm90:",
        "  hopper:",
        '12: targets.hopper: "hopper" isn\'t MACHINE-smNN ("x86_64-sm90"); mend it',
    ),
    "unknown machine, near": (
        "    machine: x86_64",
        "    machine: x86-64",
        '13: targets.x86_64-sm90.machine: "x86-64" isn\'t known; did you mean x86_64?',
    ),
    "presence": (
        "presence: required",
        "presence: requird",
        '22: targets.x86_64-sm90.extensions["axpy/_C"].presence: "requird" isn\'t known; did you mean required?',
    ),
    "one profile missing": (
        "code: native",
        "code: {upstream: jit}",
        '22: targets.x86_64-sm90.extensions["axpy/_C"].code.release: the key is missing; add it',
    ),
    "member with a suffix": (
        "axpy/_C:",
        "axpy/_C.abi3.so:",
        '22: targets.x86_64-sm90.extensions["axpy/_C.abi3.so"]: members are named without the suffix '
        ".abi3.so; leave it off",
    ),
    "label that is no local version": (
        '    toolkit: "13.0.3"',
        '    label: "a b"\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.label: "a b" is no part of a local version; use letters, digits and single dots',
    ),
    "label spelt otherwise": (
        '    toolkit: "13.0.3"',
        '    label: "Spark"\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.label: "Spark" is spelt "spark" in a version; write "spark"',
    ),
    "label that means a build mode": (
        '    toolkit: "13.0.3"',
        '    label: "spark.precompiled"\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.label: "precompiled" already means something in a version; '
        "choose a word that is no commit, date, toolkit or build mode",
    ),
    "driver of another major": (
        'oldest_cuda: "13.0"',
        'oldest_cuda: "12.9"',
        "20: targets.x86_64-sm90.driver.oldest_cuda: a driver of CUDA 12.9 runs no code of toolkit 13.0.3: "
        "their majors differ; name a driver of the toolkit's CUDA major",
    ),
    "no arch of the target": (
        'arch_list: "9.0"',
        'arch_list: "10.0;12.0"',
        '18: targets.x86_64-sm90.arch_list: "10.0;12.0" asks for nothing of compute capability 9.0; add "9.0"',
    ),
    "arch list of another spelling": (
        'arch_list: "9.0"',
        'arch_list: "sm_90"',
        '18: targets.x86_64-sm90.arch_list: "sm_90" is no architecture of TORCH_CUDA_ARCH_LIST; write "9.0" or "12.1"',
    ),
    "arch list with one of another spelling": (
        'arch_list: "9.0"',
        'arch_list: "9.0;sm_90"',
        '18: targets.x86_64-sm90.arch_list: "sm_90" is no architecture of TORCH_CUDA_ARCH_LIST; write "9.0" or "12.1"',
    ),
    "preferred above the ceiling": (
        'glibcxx: "3.4.24"',
        'glibcxx: "3.4.24", preferred_glibc: "2.31"',
        "19: targets.x86_64-sm90.ceilings.preferred_glibc: 2.31 is above the ceiling 2.28; "
        "prefer no more than is allowed",
    ),
    "no base": (
        "base: {bootstrap: debian-12}",
        "base: {}",
        "16: targets.x86_64-sm90.base: neither an image nor a bootstrap is named; name one of them",
    ),
    "torch missing": (
        "torch: false",
        "torch: true",
        '12: targets.x86_64-sm90.torch: the build needs torch, and no requirement is given; write "torch==VERSION"',
    ),
    "torch is something else": (
        '    toolkit: "13.0.3"',
        '    torch: "torchvision==1"\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.torch: "torchvision==1" names torchvision; write "torch==VERSION"',
    ),
    "inexact requirement": (
        'requirement: ""',
        'requirement: "axpy>=1"',
        '5: pin.requirement: "axpy>=1" is no exact requirement; write "axpy==VERSION"',
    ),
    "requirement of another project": (
        'requirement: ""',
        'requirement: "apxy==1"',
        '5: pin.requirement: "apxy==1" is no exact requirement; write "axpy==VERSION"',
    ),
    "build mode": (
        '  requirement: ""',
        '  build_modes: [sources]\n  requirement: ""',
        '5: pin.build_modes[0]: "sources" is no build mode; did you mean source?',
    ),
    "name that isn't normalised": (
        "{name: axpy,",
        "{name: ax_py,",
        '2: project.name: the normalised name is "ax-py"; write "ax-py"',
    ),
    "measured of no target": (
        "targets:",
        "measured: {x86_64-sm80: {runtime_version: a, distribution_version: a, build_mode: a, commit: 'a', sha256: "
        + '"'
        + "a" * 64
        + '"'
        + ", toolkit: a, torch: a, flashinfer: a, how: a, when: a}}\ntargets:",
        "11: measured.x86_64-sm80: no target has this name; did you mean x86_64-sm90?",
    ),
    "a list where keys belong": (
        "base: {bootstrap: debian-12}",
        "base: [debian-12]",
        "16: targets.x86_64-sm90.base: expected keys and values, found a list",
    ),
    "text where a list belongs": (
        'python: ["3.12"]',
        'python: "3.12"',
        '15: targets.x86_64-sm90.python: expected a list, found "3.12"; write it as [a, b]',
    ),
    "an empty list": (
        'python: ["3.12"]',
        "python: []",
        "15: targets.x86_64-sm90.python: there is nothing in it; fill it in",
    ),
    "control that is no exact requirement": (
        '    toolkit: "13.0.3"',
        '    control: {wheel: "axpy>=1"}\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.control.wheel: "axpy>=1" is neither an exact requirement nor a wheel\'s path; '
        'write "axpy==VERSION" or the path of a .whl',
    ),
    "control of another project": (
        '    toolkit: "13.0.3"',
        '    control: {wheel: "apxy==1"}\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.control.wheel: "apxy==1" is neither an exact requirement nor a wheel\'s path; '
        'write "axpy==VERSION" or the path of a .whl',
    ),
    "control's file of another project": (
        '    toolkit: "13.0.3"',
        f'    control: {{wheel: good/apxy-1-py3-none-any.whl, sha256: "{"a" * 64}"}}\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.control.wheel: "apxy-1-py3-none-any.whl" is a wheel of apxy; name a wheel of axpy',
    ),
    "control for another machine": (
        '    toolkit: "13.0.3"',
        f'    control: {{wheel: axpy-1-cp312-abi3-linux_aarch64.whl, sha256: "{"a" * 64}"}}\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.control.wheel: "axpy-1-cp312-abi3-linux_aarch64.whl" is for another machine than '
        "x86_64; name one for the target's machine",
    ),
    "control that is no wheel's name": (
        '    toolkit: "13.0.3"',
        f'    control: {{wheel: good/axpy.whl, sha256: "{"a" * 64}"}}\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.control.wheel: "axpy.whl" is no wheel\'s name: Invalid wheel filename (wrong number '
        "of parts): 'axpy'; write NAME-VERSION-TAGS.whl",
    ),
    "control's file without its bytes": (
        '    toolkit: "13.0.3"',
        '    control: {wheel: good/axpy-1-cp312-abi3-linux_x86_64.whl}\n    toolkit: "13.0.3"',
        "17: targets.x86_64-sm90.control: nothing says which bytes the file has to be; add its sha256",
    ),
    "control on this machine": (
        '    toolkit: "13.0.3"',
        f'    control: {{wheel: /srv/axpy-1-cp312-abi3-linux_x86_64.whl, sha256: "{"a" * 64}"}}\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.control.wheel: "/srv/axpy-1-cp312-abi3-linux_x86_64.whl" holds a path of one machine; '
        "put it into matrix.local.yaml, or write it relative to this file",
    ),
    "control with part of a hash": (
        '    toolkit: "13.0.3"',
        '    control: {wheel: "axpy==1", sha256: "abc"}\n    toolkit: "13.0.3"',
        '17: targets.x86_64-sm90.control.sha256: "abc" isn\'t 64 lower-case hex digits; mend it',
    ),
    "waiver of no code": (
        "targets:",
        f'waivers: [{{code: dev001, reason: no GPU here, granted_by: me, pin: "{COMMIT}"}}]\ntargets:',
        '11: waivers[0].code: "dev001" isn\'t the code of a check ("DEV001"); write it in capitals',
    ),
    "waiver without end": (
        "targets:",
        "waivers: [{code: DEV001, reason: no GPU here, granted_by: me}]\ntargets:",
        "11: waivers[0]: it holds for nothing; name the wheel by its sha256 (wheel), or the commit (pin)",
    ),
    "waiver of a wheel and a pin": (
        "targets:",
        f'waivers: [{{code: DEV001, reason: no GPU here, granted_by: me, pin: "{COMMIT}", wheel: "{"a" * 64}"}}]\n'
        "targets:",
        "11: waivers[0].pin: it names a wheel and a pin; keep one of them",
    ),
    "waiver of a target that there is not": (
        "targets:",
        f'waivers: [{{code: DEV001, reason: till May, granted_by: I, pin: "{COMMIT}", target: x86_64-sm91}}]\ntargets:',
        '11: waivers[0].target: no target is called "x86_64-sm91"; did you mean x86_64-sm90?',
    ),
    "waiver without a reason": (
        "targets:",
        f'waivers: [{{code: DEV001, reason: so, granted_by: me, pin: "{COMMIT}"}}]\ntargets:',
        '11: waivers[0].reason: "so" is too short to say anything; fill it in',
    ),
    "a waiver twice": (
        "targets:",
        f"""\
waivers:
  - {{code: DEV001, reason: no GPU here, granted_by: me, pin: "{COMMIT}"}}
  - {{code: DEV001, reason: another reason, granted_by: him, pin: "{COMMIT}"}}
targets:""",
        "13: waivers[1]: the same waiver as the one in waivers[0]; keep one of them",
    ),
    "size that is none": (
        'glibcxx: "3.4.24"',
        'glibcxx: "3.4.24", wheel_size: 0',
        "19: targets.x86_64-sm90.ceilings.wheel_size: 0: Input should be greater than or equal to 1",
    ),
    "alias": (
        'toolkit: "13.0.3"\n    arch_list: "9.0"',
        'toolkit: &v "13.0"\n    arch_list: *v',
        "18: targets.x86_64-sm90.arch_list: an alias (*name) isn't read here; write the value out",
    ),
    "tag": (
        "git: axpy.bundle",
        "git: !!python/name:os.system axpy.bundle",
        "7: pin.source.git: the tag tag:yaml.org,2002:python/name:os.system isn't read here; write the plain value",
    ),
    "not YAML": (
        "git: axpy.bundle",
        "git: [axpy.bundle",
        "8: not YAML: while parsing a flow sequence, expected ',' or ']', but got ':'",
    ),
}


def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matrix.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load(Path("matrix.yaml"))
    return str(caught.value)


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_says_where_what_and_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after, message = REFUSALS[name]
    assert GOOD.count(before) == 1
    assert refusal(tmp_path, monkeypatch, GOOD.replace(before, after)) == f"matrix.yaml:{message}"


def test_the_unbroken_text_loads(tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text(GOOD, encoding="utf-8")
    assert list(load(tmp_path / "matrix.yaml").matrix.targets) == ["x86_64-sm90"]


def test_all_problems_come_in_one_error_in_the_order_of_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = GOOD.replace('"9.0"\n    python', "9.0\n    python").replace("git: axpy.bundle", "git: /a/b")
    assert refusal(tmp_path, monkeypatch, text) == (
        "matrix.yaml: 2 problems\n"
        '  matrix.yaml:7: pin.source.git: "/a/b" holds a path of one machine; '
        "put it into matrix.local.yaml, or write it relative to this file\n"
        "  matrix.yaml:14: targets.x86_64-sm90.compute_capability: YAML reads 9.0 as the number 9.0; quote it: "
        '"9.0"'
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "matrix.yaml: the file is empty"),
        (b"- a\n", "matrix.yaml:1: expected keys and values at the top"),
        (b"a: \xff\n", "matrix.yaml: byte 3 isn't UTF-8; save the file as UTF-8"),
        (b"[" * 5000, "matrix.yaml: nested too deeply"),
        (
            b"a: 1\n---\nb: 2\n",
            "matrix.yaml:2: not YAML: expected a single document in the stream, but found another document",
        ),
    ],
)
def test_a_file_that_is_no_matrix_at_all(
    content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("matrix.yaml").write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        load(Path("matrix.yaml"))
    assert str(caught.value).startswith(message)
