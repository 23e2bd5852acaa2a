"""The first true cause of a build that failed."""

from __future__ import annotations

import time

import pytest

from builders.causes import FIRST, SECOND, first_cause
from builders.commandlines import brief, is_command
from tools.failing_builds import LOGS, Recipe, read_recipes

CASES = {
    "missing header below CMake's report": (
        """\
  -- The CXX compiler identification is GNU 12.2.0
  CMake Error at CMakeDetermineCompilerId.cmake:966 (message):
    Compiling the CUDA compiler identification source file
    "CMakeCUDACompilerId.cu" failed.

    tmp/CMakeCUDACompilerId.fatbin.c:2:10: fatal error: fatbinary_section.h: No
    such file or directory
  subprocess.CalledProcessError: Command '['cmake']' returned non-zero exit status 1.
""",
        "missing header",
        "fatbinary_section.h",
    ),
    "killed": (
        """\
  [1/2] c++ -c a.cpp
  c++: fatal error: Killed signal terminated program cc1plus
  compilation terminated.
  ninja: build stopped: subcommand failed.
  RuntimeError: Error compiling objects for extension
""",
        "killed",
        "cc1plus",
    ),
    "requirement": (
        """\
  Traceback (most recent call last):
    File "<string>", line 21, in <module>
  ModuleNotFoundError: No module named 'setuptools_rust'
  error: metadata-generation-failed
""",
        "requirement",
        "setuptools_rust",
    ),
    "unknown architecture": (
        "nvcc fatal   : Unsupported gpu architecture 'compute_999'\nninja: build stopped: subcommand failed.\n",
        "unknown architecture",
        "compute_999",
    ),
    "compile error": (
        'csrc/a.cu(12): error: identifier "x" is undefined\nninja: build stopped: subcommand failed.\n',
        "compile",
        "csrc/a.cu(12)",
    ),
    "link": (
        "/usr/bin/ld: cannot find -lcudart_static: No such file\ncollect2: error: ld returned 1\n",
        "link",
        "-lcudart",
    ),
    "cmake's own": (
        """\
  CMake Error at CMakeLists.txt:8 (message):
    AXPY_GENCODE is empty: set TORCH_CUDA_ARCH_LIST


  -- Configuring incomplete, errors occurred!
""",
        "cmake",
        "set TORCH_CUDA_ARCH_LIST",
    ),
    "python": (
        "    raise ValueError('x')\nValueError: TORCH_CUDA_ARCH_LIST is empty\nerror: subprocess-exited-with-error\n",
        "python",
        "TORCH_CUDA_ARCH_LIST is empty",
    ),
    "network": (
        "  fatal: unable to access 'https://example.org/x.git/': Could not resolve host: example.org\n",
        "network",
        "example.org",
    ),
    "host compiler": (
        "  /opt/cuda/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later "
        "than 13 are not supported! The nvcc flag '-allow-unsupported-compiler' can be used to override this version "
        "check\n",
        "host compiler",
        "later than 13",
    ),
    "crash": ("foo.cu: internal compiler error: Segmentation fault\n", "compiler crash", "foo.cu"),
    "disk": ("ptxas fatal : No space left on device\n", "disk full", "No space left"),
    "harmless before the cause": (
        "  Pytorch version 2.4.0 expected for CUDA build, saw 2.11.0 instead. error: x\n  ninja: error: loading 'x'\n",
        "build",
        "loading",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cause(name: str) -> None:
    log, kind, words = CASES[name]
    cause = first_cause(log.splitlines())
    assert cause is not None
    assert cause.kind == kind
    assert words in str(cause)
    assert " ".join(log.splitlines()[cause.line - 1].split()) in str(cause)


def test_a_log_without_a_known_line_has_none() -> None:
    assert first_cause(["Building wheel", "done", "", "warning: error: of the harmless kind"]) is None


def test_colours_are_not_part_of_the_cause() -> None:
    cause = first_cause(["\x1b[31mCMake Error\x1b[0m at x:1", "  no"])
    assert str(cause) == "CMake Error at x:1 no"


RECIPES = read_recipes()[0]


def lines_of(recipe: Recipe) -> list[str]:
    return recipe.log.read_text(encoding="utf-8").splitlines()


def test_every_recipe_has_its_log_and_every_log_its_recipe() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == set(RECIPES)
    assert sum(recipe.fails and bool(recipe.kind) for recipe in RECIPES.values()) >= 20


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_the_cause_of_a_recorded_log(recipe: Recipe) -> None:
    lines = lines_of(recipe)
    cause = first_cause(lines)
    if not recipe.kind:
        assert cause is None
        return
    assert cause is not None
    assert cause.kind == recipe.kind
    assert recipe.words in str(cause)
    assert " ".join(lines[cause.line - 1].split()) in str(cause)
    assert recipe.command in cause.command
    assert bool(recipe.command) <= bool(cause.brief_command())
    assert len(str(cause)) < 500


@pytest.mark.parametrize("recipe", [each for each in RECIPES.values() if each.kind], ids=lambda recipe: recipe.name)
def test_a_cause_does_not_depend_on_colours_or_on_what_came_before(recipe: Recipe) -> None:
    lines = lines_of(recipe)
    cause = first_cause(lines)
    assert cause is not None
    good = lines_of(RECIPES["good-error-names"])
    again = first_cause([*good, *(f"\x1b[1m{line}\x1b[0m" for line in lines)])
    assert again is not None
    assert (again.kind, again.line, str(again)) == (cause.kind, cause.line + len(good), str(cause))


def test_in_a_failed_command_its_own_words_count_and_not_those_of_others() -> None:
    log = """\
[1/3] c++ -c a.cpp -o a.o
probe.cpp:1:1: error: what another command printed, which went on
[2/3] c++ -c b.cpp -o b.o
FAILED: [code=1] b.o
ccache /usr/bin/c++ -Iinclude -Isrc -O3 -DNDEBUG -DMESSAGE="error: none" -o b.o -c src/b.cpp
src/b.cpp:7:3: error: 'x' was not declared in this scope
[3/3] c++ -c c.cpp -o c.o
c.cpp:1:10: fatal error: later.h: No such file or directory
ninja: build stopped: subcommand failed.
"""
    cause = first_cause(log.splitlines())
    assert cause is not None
    assert (cause.kind, cause.line, cause.file) == ("compile", 6, "src/b.cpp:7")
    assert cause.command.startswith("ccache /usr/bin/c++ ")
    assert cause.brief_command() == "/usr/bin/c++ … -c src/b.cpp"


def test_a_failed_command_that_says_nothing_leaves_the_cause_to_the_rest() -> None:
    log = "FAILED: x.o\nfalse --option\nninja: build stopped: subcommand failed.\n  MemoryError\n"
    cause = first_cause(log.splitlines())
    assert cause is not None
    assert (cause.kind, cause.line) == ("killed", 4)


@pytest.mark.parametrize(
    "line",
    [
        "  Pytorch version 2.4.0 expected for CUDA build, saw 2.11.0 instead",
        "WARNING 12-01 fused_moe.py:881] Using default MoE config. Performance might be sub-optimal!",
        "csrc/error.cpp:3:2: warning: #warning fatal error: x: No such file [-Wcpp]",
        'csrc/k.cu(3): warning #177-D: variable "out of memory" was declared but never referenced',
        '    7 | throw error("undefined reference to");',
        '[3/9] /usr/bin/c++ -Werror -DX="a.cpp:1: error: x" -c csrc/fatal_error.cpp -o error.o',
        "  c++ -Werror=format-security -c internal_error.cpp",
        "creating build/temp/csrc/error",
        "copying sample/errors.py -> build/lib/sample",
        "nvcc warning : incompatible redefinition for option 'optimize', the last value will be used",
    ],
)
def test_a_harmless_line_is_no_cause(line: str) -> None:
    assert first_cause([line]) is None


def test_a_warning_of_cmake_is_none_however_long_it_is() -> None:
    log = """\
  CMake Warning at cmake/utils.cmake:5 (message):
    error: the compiler is old

    undefined reference to nothing
  Call Stack (most recent call first):
    CMakeLists.txt:12 (include)

  -- Configuring done
  CMake Error at CMakeLists.txt:20 (message):
    Cannot find source file:

      csrc/x.cpp

  Call Stack (most recent call first):
"""
    cause = first_cause(log.splitlines())
    assert cause is not None
    assert str(cause) == "CMake Error at CMakeLists.txt:20 (message): Cannot find source file: csrc/x.cpp"


def test_kinds_are_told_apart_by_one_word_each() -> None:
    kinds = {kind for kind, _ in (*FIRST, *SECOND)}
    assert {recipe.kind for recipe in RECIPES.values()} - {""} <= kinds


def test_a_huge_log_is_read_in_a_moment() -> None:
    began = time.monotonic()
    log = [f"[{n}/40000] c++ -Iinclude {'-DX=1 ' * 40}-c a{n}.cpp -o a{n}.o" for n in range(20_000)]
    log += (
        ["x" * 100_000] * 20 + [f"{'a/b:1.' * 2000}(" for _ in range(20)] + [f"word {n} " * 20 for n in range(20_000)]
    )
    assert first_cause(log) is None
    assert time.monotonic() - began < 20


def test_what_is_a_command_and_what_it_is_about() -> None:
    assert is_command("  /env/cuda/bin/nvcc -forward-unknown-to-host-compiler -c k.cu")
    assert is_command("ccache /room/tools/g++ -MMD -c a.cpp")
    assert not is_command("nvcc fatal   : Unsupported gpu architecture 'compute_999'")
    assert not is_command("c++: fatal error: Killed signal terminated program cc1plus")
    assert brief("cd /b && /usr/bin/c++ -a -b -c -d -e -f -g -h -o libx.so a.o") == "/usr/bin/c++ … -o libx.so"
    assert brief("c++ -c a.cpp") == "c++ -c a.cpp"
