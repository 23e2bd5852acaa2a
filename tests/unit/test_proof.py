"""Compiled here or not: real compilers, real binaries, and the ways in which a foreign one gets into a wheel."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import proof_collector
from builders.engines.local import LocalEngine, LocalRoom
from builders.environment import Prepared
from builders.proof_collector import collect
from builders.proof_elf import FAULTS, Defined, Elf
from builders.proving import LIBRARIES, MemberProof, Proof, Provenance, collect_proof, judged_proof
from qualify.errors import UnavailableError
from tests.support.engines import Heard, request

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on PATH")

SOURCE = "int PyInit__ext(void) { return 1; }\nint helper(void) { return 2; }\n"
LARGER = "static int x[9];\nint PyInit__ext(void) { int s = 0; for (int i = 0; i < 9; ++i) s += i * x[s]; return s; }\n"


def run(*command: str, folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def compiled(folder: Path, name: str = "_ext", source: str = SOURCE, *options: str) -> Path:
    """An object and a shared library of it, as a build leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.c").write_text(source)
    run("gcc", "-fPIC", *options, "-c", f"{name}.c", "-o", f"{name}.o", folder=folder)
    run("gcc", "-shared", "-Wl,--build-id", *options, f"{name}.o", "-o", f"{name}.so", folder=folder)
    return folder / f"{name}.so"


def wheel(out: Path, library: Path, member: str = "tiny/_ext.abi3.so") -> None:
    out.mkdir(exist_ok=True)
    with zipfile.ZipFile(out / "tiny-1-py3-none-any.whl", "w") as archive:
        archive.write(library, member)


def installed(tree: Path, library: Path, name: str = "_ext.abi3.so") -> Path:
    """A copy where setuptools would leave it, written now."""
    target = tree / "build" / "lib" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(library, target)
    return target


class Build:
    """A build folder, an output folder, and when the build began."""

    def __init__(self, root: Path) -> None:
        self.tree, self.out, self.elsewhere = root / "tree", root / "out", root / "elsewhere"
        self.temp = self.tree / "build" / "temp"
        self.temp.mkdir(parents=True)
        self.out.mkdir()
        self.began = time.time() - 1

    def proof(self, prebuilt: dict[str, str] | None = None, libraries: tuple[str, ...] = ()) -> Proof:
        return judged_proof(collect(str(self.tree), str(self.out), self.began, libraries), prebuilt or {})

    def member(self, prebuilt: dict[str, str] | None = None, libraries: tuple[str, ...] = ()) -> MemberProof:
        (member,) = self.proof(prebuilt, libraries).members
        return member


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


def test_what_the_build_compiled(build: Build) -> None:
    library = compiled(build.temp)
    wheel(build.out, installed(build.tree, library))
    proof = build.proof()
    (member,) = proof.members
    assert member.provenance is Provenance.COMPILED
    assert "2 of 2 symbols are in 1 objects compiled here" in member.why
    assert member.build_id == Elf(library.read_bytes()).build_id() != ""
    assert list(proof.objects) == ["build/temp/_ext.o"]
    assert any("GCC" in compiler for compiler in proof.compilers)
    assert proof.of(Provenance.FOREIGN, Provenance.UNSEEN) == ()


def test_a_stripped_library_exports_what_it_did(build: Build) -> None:
    library = compiled(build.temp)
    run("strip", library.name, folder=build.temp)
    wheel(build.out, installed(build.tree, library))
    assert build.member().provenance is Provenance.COMPILED


def prebuilt_is_copied(build: Build, before: Path) -> Path:
    """What a download leaves: a library in the build folder, and nothing compiled."""
    return installed(build.tree, before)


def prebuilt_beside_objects(build: Build, before: Path) -> Path:
    """Something else is compiled too."""
    compiled(build.temp, "other", "int other(void) { return 0; }\n")
    return installed(build.tree, before)


def prebuilt_of_another_source(build: Build, before: Path) -> Path:
    """The same module was compiled, and another library of that name delivered."""
    compiled(build.temp, "_ext", "int PyInit__ext(void) { return 1; }\n")
    return installed(build.tree, before)


def prebuilt_of_the_same_names(build: Build, before: Path) -> Path:
    """All that it exports was compiled too, from another source."""
    names = "".join(f"int more{number}(void) {{ return {number}; }}\n" for number in range(3))
    compiled(build.temp, "_ext", f"{LARGER}{names}")
    return installed(build.tree, before)


def older_than_the_build(build: Build, before: Path) -> Path:
    """A library that lay in the tree before, with its old time."""
    compiled(build.temp)
    target = installed(build.tree, before)
    os.utime(target, (10**9, 10**9))
    return target


def not_of_the_build_folder(build: Build, before: Path) -> Path:
    compiled(build.temp)
    return before


def under_a_name_like_cargo_s(build: Build, before: Path) -> Path:
    """In a folder that is called as cargo calls its own, with a fingerprint of something else."""
    compiled(build.temp)
    target = build.tree / "target" / "release" / "deps" / "lib_ext.so"
    target.parent.mkdir(parents=True)
    shutil.copyfile(before, target)
    note = target.parents[1] / ".fingerprint" / "other-0123456789abcdef" / "lib-other"
    note.parent.mkdir(parents=True)
    note.write_text("0")
    return target


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (prebuilt_is_copied, "nothing was compiled since the build began"),
        (prebuilt_beside_objects, "defines 4 of its 4 symbols: PyInit__ext"),
        (prebuilt_of_another_source, "defines 3 of its 4 symbols"),
        (prebuilt_of_the_same_names, "1 of its functions have another size in the objects: PyInit__ext"),
        (older_than_the_build, "no file that was made since the build began"),
        (not_of_the_build_folder, "no file that was made since the build began"),
        (under_a_name_like_cargo_s, "defines 3 of its 4 symbols"),
    ],
)
def test_what_it_did_not_compile(build: Build, make: Callable[[Build, Path], Path], why: str) -> None:
    more = "".join(f"int more{number}(void) {{ return {number}; }}\n" for number in range(3))
    before = compiled(build.elsewhere, source=f"int PyInit__ext(void) {{ return 3; }}\n{more}")
    wheel(build.out, make(build, before))
    member = build.member()
    assert member.provenance is Provenance.FOREIGN
    assert why in member.why


def test_what_the_tree_may_bring(build: Build) -> None:
    wheel(build.out, compiled(build.elsewhere))
    member = build.member({"tiny/_ext*": "a vendor's library, which nobody can compile"})
    assert (member.provenance, member.why) == (Provenance.ALLOWED, "a vendor's library, which nobody can compile")
    assert build.member({"tiny/_other*": "another one"}).provenance is Provenance.FOREIGN


def test_objects_in_a_static_library_of_the_build_count(build: Build) -> None:
    library = compiled(build.temp)
    run("ar", "rcs", "lib.a", "_ext.o", folder=build.temp)
    compiled(build.temp, "main", "int unrelated(void) { return 0; }\n")
    (build.temp / "_ext.o").unlink()
    wheel(build.out, library)
    assert build.member().provenance is Provenance.COMPILED


def test_what_a_link_takes_of_the_place_s_static_libraries_is_told(build: Build) -> None:
    place = build.elsewhere
    compiled(place, "part", "int part(void) { return 7; }\n")
    run("ar", "rcs", "libpart.a", "part.o", folder=place)
    compiled(build.temp)
    link = [
        "-shared",
        "_ext.o",
        "-Wl,--whole-archive",
        str(place / "libpart.a"),
        "-Wl,--no-whole-archive",
        "-o",
        "whole.so",
    ]
    run("gcc", *link, folder=build.temp)
    wheel(build.out, build.temp / "whole.so")
    assert "defines 1 of its 3 symbols: part" in build.member().why
    member = build.member(libraries=(str(place / "*.a"),))
    assert member.provenance is Provenance.COMPILED
    assert member.libraries == ("libpart.a",)


def test_the_compiler_s_own_library_is_among_the_place_s(build: Build) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on PATH")
    (build.temp / "a.cpp").write_text('#include <iostream>\nextern "C" int PyInit__ext() { std::cout << 1; return 0; }')
    run("g++", "-fPIC", "-c", "a.cpp", "-o", "a.o", folder=build.temp)
    run("g++", "-shared", "-static-libstdc++", "a.o", "-o", "a.so", folder=build.temp)
    wheel(build.out, build.temp / "a.so")
    member = build.member(libraries=LIBRARIES)
    assert member.provenance is Provenance.COMPILED, member.why
    assert "libstdc++.a" in member.libraries


def test_intermediate_code_is_looked_into(build: Build) -> None:
    wheel(build.out, compiled(build.temp, "_ext", SOURCE, "-flto", "-O2"))
    member = build.member()
    assert member.provenance is Provenance.COMPILED, member.why
    other = Build(build.elsewhere.parent / "other")
    compiled(other.temp, "_ext", "int unrelated(void) { return 1; }\n", "-flto", "-O2")
    wheel(other.out, installed(other.tree, build.temp / "_ext.so"))
    assert other.member().provenance is Provenance.FOREIGN


def test_what_an_install_step_stripped_is_found_by_its_code(build: Build) -> None:
    library = compiled(build.temp)
    copy = build.elsewhere / "stripped.so"
    build.elsewhere.mkdir()
    shutil.copyfile(library, copy)
    run("strip", copy.name, folder=build.elsewhere)
    wheel(build.out, copy)
    member = build.member()
    assert member.provenance is Provenance.COMPILED
    assert "stripped, or with another run path; build/temp/_ext.so" in member.why
    # The same exports of the same sizes, and other code.
    other = compiled(build.elsewhere, "other", SOURCE.replace("return 1", "return 7"))
    assert other.stat().st_size == library.stat().st_size
    wheel(build.out, other)
    assert build.member().provenance is Provenance.FOREIGN


def test_a_program(build: Build) -> None:
    (build.temp / "main.c").write_text('#include <stdio.h>\nint main(void) { fputs("x", stdout); return 0; }\n')
    run("gcc", "-c", "main.c", "-o", "main.o", folder=build.temp)
    run("gcc", "main.o", "-o", "main", folder=build.temp)
    wheel(build.out, build.temp / "main", "tiny/main")
    assert build.member(libraries=LIBRARIES).provenance is Provenance.COMPILED
    shutil.copyfile(build.temp / "main", build.temp / "installed")
    run("strip", "installed", folder=build.temp)
    wheel(build.out, build.temp / "installed", "tiny/main")
    (build.temp / "main").rename(build.tree / "main")
    (build.tree / "main").unlink()
    member = build.member(libraries=LIBRARIES)
    assert member.provenance is Provenance.UNSEEN
    assert "exports nothing and is stripped" in member.why


@pytest.mark.parametrize("data", [b"BC\xc0\xde of clang", b"\x7fELF\x01\x01 of 32 bits"])
def test_objects_that_cannot_be_read_are_no_proof_of_a_foreign_binary(build: Build, data: bytes) -> None:
    library = compiled(build.temp)
    (build.temp / "_ext.o").unlink()
    compiled(build.temp, "more", "int more(void) { return 1; }\n")
    (build.temp / "other.o").write_bytes(data)
    wheel(build.out, library)
    member = build.member()
    assert member.provenance is Provenance.UNSEEN
    assert "1 objects or archives could not be read, the first: build/temp/other.o" in member.why


def test_more_files_than_are_looked_at_are_told(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(build.out, installed(build.tree, compiled(build.elsewhere)))
    for number in range(3):
        (build.temp / f"{number}.txt").touch()
    monkeypatch.setattr(proof_collector, "MAX_FILES", 2)
    member = build.member()
    assert member.provenance is Provenance.UNSEEN
    assert "more files than are looked at" in member.why


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo on PATH")
def test_what_cargo_linked(build: Build) -> None:
    crate = build.tree / "rust"
    (crate / "src" / "bin").mkdir(parents=True)
    kind = '[lib]\ncrate-type = ["cdylib"]\n'
    (crate / "Cargo.toml").write_text(f'[package]\nname = "tiny-rs"\nversion = "1.0.0"\nedition = "2021"\n{kind}')
    (crate / "src" / "lib.rs").write_text('#[no_mangle]\npub extern "C" fn PyInit_tiny() -> i32 { 1 }\n')
    (crate / "src" / "bin" / "tiny-tool.rs").write_text("fn main() {}\n")
    environment = {**os.environ, "CARGO_NET_OFFLINE": "true"}
    environment.pop("CARGO_TARGET_DIR", None)
    command = ["cargo", "build", "--release", "--quiet"]
    subprocess.run(command, cwd=crate, check=True, env=environment, capture_output=True)
    release = crate / "target" / "release"
    with zipfile.ZipFile(build.out / "tiny-1-py3-none-any.whl", "w") as archive:
        archive.write(installed(build.tree, release / "libtiny_rs.so"), "tiny/tiny.abi3.so")
        archive.write(installed(build.tree, release / "tiny-tool", "tiny-tool"), "tiny/tiny-tool")
    members = build.proof().members
    assert [member.provenance for member in members] == [Provenance.LINKED] * 2, members
    # The same files where cargo noted nothing of them.
    shutil.rmtree(release / ".fingerprint")
    assert all(member.provenance is Provenance.FOREIGN for member in build.proof().members)


@pytest.mark.skipif(shutil.which("ninja") is None, reason="no ninja on PATH")
def test_ninja_s_own_log(build: Build) -> None:
    rules = "rule cc\n command = gcc -fPIC -DN=$n -c _ext.c -o $out\nbuild _ext.o | also.txt: cc\n n = {n}\n"
    (build.temp / "_ext.c").write_text(SOURCE)
    for number in (1, 2):
        (build.temp / "build.ninja").write_text(rules.format(n=number))
        (build.temp / "also.txt").touch()
        run("ninja", folder=build.temp)
    (log,) = build.proof().ninja
    assert log["format"].startswith("ninja log v")
    assert log["path"] == "build/temp/.ninja_log"
    assert log["steps"] == 1, "one step with two outputs"
    assert log["slowest"][0]["milliseconds"] >= 0
    assert "_ext.o" in log["again"], "two commands, one after the other"


def test_a_module_whose_object_another_extension_wrote_over(build: Build) -> None:
    """torch's builder: one source in two extensions is one object, which the second compile replaces."""
    source = "int NAME(void) { return 1; }\nint helper(void) { return 2; }\n"
    library = compiled(build.temp, "_ext", source, "-DNAME=PyInit__ext")
    wheel(build.out, installed(build.tree, library))
    compiled(build.temp, "_ext", source, "-DNAME=PyInit__other")
    assert build.member().provenance is Provenance.FOREIGN
    (build.temp / ".ninja_log").write_text("# ninja log v5\n0\t9\t0\t_ext.o\tabc\n9\t20\t0\t_ext.o\tdef\n")
    member = build.member()
    assert member.provenance is Provenance.COMPILED
    assert "made again later by another command: _ext.o" in member.why


@pytest.mark.parametrize("version", [5, 6, 7])
def test_a_log_with_what_nobody_wrote(build: Build, version: int) -> None:
    lines = [
        "0\t2500\t17\ta.o\tabc",
        "0\t2500\t17\ta.d\tabc",
        "10\t60\t17\tb.so\tdef",
        "broken",
        "x\ty\t1\tc\td",
        "1\t2",
    ]
    (build.temp / ".ninja_log").write_text(f"# ninja log v{version}\n" + "\n".join(lines) + "\n")
    (log,) = build.proof().ninja
    assert (log["format"], log["steps"], log["again"]) == (f"ninja log v{version}", 2, [])
    assert log["slowest"][0] == {"output": "a.o", "milliseconds": 2500}


@pytest.mark.parametrize("size", [0, 63, 200, 2000])
def test_what_is_cut_off_is_told(build: Build, size: int) -> None:
    library = compiled(build.temp)
    (build.temp / "broken.o").write_bytes(library.read_bytes()[:size])
    facts = collect(str(build.tree), str(build.out), build.began)
    assert [line.partition(":")[0] for line in facts["unread"]] == ["build/temp/broken.o"]


def test_lies_in_a_header_end(tmp_path: Path) -> None:
    data = bytearray(compiled(tmp_path).read_bytes())
    for offset in range(0, 64, 2):
        broken = bytes(data[:offset]) + b"\xff\xff" + bytes(data[offset + 2 :])
        began = time.monotonic()
        with contextlib.suppress(*FAULTS):
            Defined().add(broken)
        assert time.monotonic() - began < 5


@pytest.fixture
def room(tmp_path: Path) -> Iterator[LocalRoom]:
    with LocalEngine(tmp_path / "engine").open(request(), Heard()) as opened:
        yield opened


def prepared(python: str) -> Prepared:
    return Prepared(python, "3.12", "", "", {}, (), False)


def test_it_travels_into_a_room_by_itself(room: LocalRoom, tmp_path: Path) -> None:
    build = Build(tmp_path)
    library = compiled(build.temp)
    wheel(Path(room.paths.out), installed(build.tree, library))
    facts = collect_proof(room, prepared(sys.executable), str(build.tree), build.began)
    (member,) = judged_proof(facts, {}).members
    assert member.provenance is Provenance.COMPILED
    assert facts == json.loads(json.dumps(facts))


def test_a_room_that_cannot_look_is_no_verdict(room: LocalRoom, tmp_path: Path) -> None:
    (Path(room.paths.out) / "tiny-1-py3-none-any.whl").write_bytes(b"no archive")
    with pytest.raises(UnavailableError, match=r"the build folder could not be looked at: .*BadZipFile"):
        collect_proof(room, prepared(sys.executable), str(tmp_path), 0)
