"""The collector: where tools and headers are, told as facts, by any Python from 3.8 on."""

from __future__ import annotations

import ast
import json
import os
import pwd
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import machinefacts
from builders import toolsearch_collector as collector
from builders.toolsearch import (
    Host,
    Request,
    collector_source,
    demands,
    header_folders,
    look_in_folders,
    run_here,
    this_host,
)
from qualify.errors import UnavailableError
from qualify.matrix.model import Tool
from tests.unit.builders_support import NVCC, make_tool, write_tree

NINJA = {"name": "ninja", "commands": ["ninja"], "arguments": ["--version"]}


def collected(**request: Any) -> dict[str, Any]:
    return collector.collect({"environment": {"PATH": "/nowhere"}, **request})


def paths(found: list[dict[str, Any]]) -> list[str]:
    return [one["path"] for one in found]


def test_it_is_of_python_3_8_and_the_standard_library_alone() -> None:
    tree = ast.parse(collector_source(), feature_version=(3, 8))
    for text in (collector.INTERPRETER, collector.HOOK):
        ast.parse(text, feature_version=(3, 8))
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {
        (alias.name if isinstance(node, ast.Import) else node.module) or "" for node in named for alias in node.names
    }
    assert {module.split(".")[0] for module in modules} <= sys.stdlib_module_names
    assert {"memory", "collect"} <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "match" not in {type(node).__name__.lower() for node in ast.walk(tree)}


def test_it_fits_into_one_argument() -> None:
    # The kernel takes at most 128 KiB for one argument (MAX_ARG_STRLEN).
    assert len(collector_source().encode()) < 100_000


def test_as_text_for_another_process() -> None:
    answer = json.loads(run_here(["-c", collector_source(), json.dumps(Request(python=sys.executable).to_json())]))
    assert answer["version"] == collector.VERSION
    assert answer["interpreter"]["version"] == ".".join(str(part) for part in sys.version_info[:3])
    names = {item["name"].lower() for item in answer["interpreter"]["distributions"]}
    assert {"pytest", "packaging"} <= names
    assert answer["seconds"] < 10


def test_a_place_that_cannot_run_it() -> None:
    with pytest.raises(UnavailableError, match="could not be collected"):
        run_here(["-c", "import sys; sys.exit('broken')"])


def test_on_path(tmp_path: Path) -> None:
    make_tool(tmp_path / "bin", "ninja", "echo 1.11.1")
    facts = collected(tools=[NINJA], environment={"PATH": str(tmp_path / "bin")})
    (found,) = facts["tools"]["ninja"]["on_path"]
    expected = {"path": str(tmp_path / "bin/ninja"), "status": 0, "output": "1.11.1", "marked": True, "lists": {}}
    assert found == {**expected, "real": expected["path"], "beside": {}}
    assert facts["tools"]["ninja"]["elsewhere"] == []


def test_off_path_in_a_folder_that_is_looked_into(tmp_path: Path) -> None:
    make_tool(tmp_path / "tools-1" / "bin", "ninja", "echo 1.11.1")
    facts = collected(tools=[NINJA], look_in=[f"{tmp_path}/tools-*/bin"])
    assert facts["tools"]["ninja"]["on_path"] == []
    assert paths(facts["tools"]["ninja"]["elsewhere"]) == [str(tmp_path / "tools-1/bin/ninja")]


def test_one_file_by_two_names_is_not_elsewhere(tmp_path: Path) -> None:
    make_tool(tmp_path / "bin", "ninja", "echo 1")
    (tmp_path / "link").symlink_to(tmp_path / "bin")
    facts = collected(tools=[NINJA], environment={"PATH": str(tmp_path / "bin")}, look_in=[str(tmp_path / "link")])
    assert facts["tools"]["ninja"]["elsewhere"] == []


def test_a_variable_names_the_compiler_instead(tmp_path: Path) -> None:
    own = make_tool(tmp_path / "own", "clang++-18", "echo clang version 18.1.0")
    make_tool(tmp_path / "bin", "c++", "echo 'c++ (GCC) 14.2.0'")
    tool = {"name": "c++", "commands": ["c++"], "variable": "CXX", "arguments": ["--version"]}

    def with_cxx(value: str) -> Any:
        return collected(tools=[tool], environment={"PATH": str(tmp_path / "bin"), "CXX": value})["tools"]["c++"]

    assert paths(with_cxx("")["on_path"]) == [str(tmp_path / "bin/c++")]
    assert paths(with_cxx(f"{own} -O2")["on_path"]) == [str(own)]
    gone = with_cxx("g++-99")
    assert (gone["on_path"], gone["named"]) == ([], "g++-99")


def test_what_is_not_executable_is_not_there(tmp_path: Path) -> None:
    make_tool(tmp_path, "ninja", "echo 1").chmod(0o644)
    (tmp_path / "sub" / "ninja").mkdir(parents=True)
    facts = collected(tools=[NINJA], environment={"PATH": f"{tmp_path}:{tmp_path}/sub"})
    assert facts["tools"]["ninja"]["on_path"] == []


def test_a_tool_that_fails_is_told_as_it_is(tmp_path: Path) -> None:
    make_tool(tmp_path, "ninja", "echo 'pyenv: ninja: command not found' >&2; exit 127")
    (found,) = collected(tools=[NINJA], environment={"PATH": str(tmp_path)})["tools"]["ninja"]["on_path"]
    assert (found["status"], found["output"]) == (127, "pyenv: ninja: command not found")


def test_a_tool_that_hangs_costs_its_seconds_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "PROBE_SECONDS", 1)
    make_tool(tmp_path, "ninja", "exec sleep 60")
    facts = collected(tools=[NINJA], environment={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert facts["tools"]["ninja"]["on_path"][0]["status"] is None
    assert facts["seconds"] < 8


def test_nvcc_lists_its_architectures(tmp_path: Path) -> None:
    make_tool(tmp_path, "nvcc", NVCC)
    tool = {
        "name": "nvcc",
        "commands": ["nvcc"],
        "arguments": ["--version"],
        "lists": ["--list-gpu-arch", "--list-gpu-code"],
    }
    (found,) = collected(tools=[tool], environment={"PATH": str(tmp_path)})["tools"]["nvcc"]["on_path"]
    assert found["lists"] == {"--list-gpu-arch": ["compute_90", "compute_121"], "--list-gpu-code": ["sm_90", "sm_121"]}


def test_a_toolkit_is_told_from_a_script_that_calls_its_nvcc(tmp_path: Path) -> None:
    make_tool(tmp_path / "local" / "bin", "nvcc", NVCC)
    make_tool(tmp_path / "cuda" / "bin", "nvcc", NVCC)
    (tmp_path / "cuda" / "nvvm").mkdir()
    tool = {"name": "nvcc", "commands": ["nvcc"], "arguments": ["--version"], "marks": ["nvvm"]}
    facts = collected(tools=[tool], look_in=[f"{tmp_path}/local/bin", f"{tmp_path}/cuda/bin"])
    assert [found["marked"] for found in facts["tools"]["nvcc"]["elsewhere"]] == [False, True]


def test_folders_are_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("home/.local/bin", "cuda/bin", "site/nvidia/cu13/bin", "prefix/bin", "venv/bin", "we[i]rd/bin"):
        (tmp_path / name).mkdir(parents=True)
    interpreter = {
        "executable": str(tmp_path / "venv/bin/python"),
        "prefix": str(tmp_path / "prefix"),
        "site": [str(tmp_path / "site")],
    }
    environment = {
        "HOME": str(tmp_path / "home"),
        "CUDA_HOME": str(tmp_path / "cuda"),
        "ODD": str(tmp_path / "we[i]rd"),
    }
    patterns = ["$PYTHON_BIN", "$PYTHON_PREFIX/bin", "~/.local/bin", "$SITE_PACKAGES/nvidia/*/bin", "$CUDA_HOME/bin"]
    patterns += ["$CONDA_PREFIX/bin", "$ODD/bin", "/no/such/*"]
    monkeypatch.setattr(collector, "homes", lambda environment: [environment["HOME"]])
    found = collector.folders_to_look_in(patterns, environment, interpreter)
    names = ["venv/bin", "prefix/bin", "home/.local/bin", "site/nvidia/cu13/bin", "cuda/bin", "we[i]rd/bin"]
    assert found == [str(tmp_path / name) for name in names]


def test_the_accounts_own_home_is_looked_into_besides_the_one_that_is_named() -> None:
    own = pwd.getpwuid(os.getuid()).pw_dir
    assert collector.homes({"HOME": "/build/home"}) == ["/build/home", own]


def test_the_callers_folders_come_first() -> None:
    assert look_in_folders(["/x/"])[:2] == ("/x/", "/x/bin")
    assert header_folders(["/x"])[:3] == ("/x", "/x/python{version}", "/x/include/python{version}")


def interpreter_without_headers(folder: Path) -> Path:
    """An interpreter whose base holds everything of this one's but its headers."""
    base = Path(sys.base_prefix)
    (folder / "base" / "bin").mkdir(parents=True)
    real = Path(sys.executable).resolve()
    (folder / "base" / "bin" / real.name).symlink_to(real)
    (folder / "base" / "lib").symlink_to(base / "lib")
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").write_text(f"home = {folder / 'base' / 'bin'}\n", encoding="utf-8")
    python = folder / "venv" / "bin" / "python"
    python.symlink_to(folder / "base" / "bin" / real.name)
    return python


def test_headers_of_this_interpreter() -> None:
    facts = collected(python=sys.executable)
    assert facts["headers"]["own_folders"] == [sysconfig.get_path("include")]
    for found in facts["headers"]["own"]:
        assert found["version"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")


def test_headers_that_are_not_there(tmp_path: Path) -> None:
    python = interpreter_without_headers(tmp_path)
    facts = collected(python=str(python))
    assert facts["interpreter"]["executable"] == str(python)
    assert facts["headers"]["own"] == []
    assert facts["headers"]["own_folders"] == [
        str(tmp_path / f"base/include/python{sys.version_info[0]}.{sys.version_info[1]}")
    ]


def test_headers_elsewhere_and_headers_that_compilers_are_told(tmp_path: Path) -> None:
    text = f'#define PY_MAJOR_VERSION 3\n#define PY_VERSION              "{sys.version.split()[0]}"\n'
    short = f"{sys.version_info[0]}.{sys.version_info[1]}"
    write_tree(tmp_path / "include" / f"python{short}", {"Python.h": "", "patchlevel.h": text})
    folder = tmp_path / "include" / f"python{short}"
    expected = [{"path": str(folder / "Python.h"), "version": sys.version.split()[0]}]
    elsewhere = collected(python=sys.executable, headers_in=[f"{tmp_path}/include/python{{version}}"])
    assert elsewhere["headers"]["elsewhere"] == expected
    told = collected(python=sys.executable, environment={"PATH": "", "CPLUS_INCLUDE_PATH": f"/x:{folder}"})
    assert told["headers"]["told"] == expected


def test_watched_variables_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_SECRET", "s")
    facts = collected(watch=["TINY_USE_*"], environment={"PATH": "", "TINY_USE_PRECOMPILED": "1"})
    assert facts["environment"] == {"TINY_USE_PRECOMPILED": "1"}
    assert "TINY_SECRET" not in json.dumps(facts)


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    for python in (tmp_path / "gone", make_tool(tmp_path, "python", "echo broken >&2; exit 3")):
        facts = collected(python=str(python))
        assert facts["interpreter"] is None
        assert facts["interpreter_problem"]


def torch_in(folder: Path, version_py: str) -> dict[str, Any]:
    """What the collector says of a torch that stands on PYTHONPATH; it is not imported."""
    write_tree(folder, {"torch/__init__.py": "raise SystemExit('imported')\n", "torch/version.py": version_py})
    facts = collected(python=sys.executable, environment={"PATH": "", "PYTHONPATH": str(folder)})
    found: dict[str, Any] = facts["interpreter"]["torch"]
    return found


@pytest.mark.parametrize(
    ("text", "cuda", "stated"),
    [
        ("__version__ = '2.14.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", "13.0", True),
        ("__version__ = '2.14.0+cpu'\ncuda = None\n", None, True),
        ("__version__ = '2.14.0'\n", None, False),
        ("broken (", None, False),
    ],
)
def test_torch_is_read_and_not_imported(tmp_path: Path, text: str, cuda: str | None, stated: bool) -> None:
    torch = torch_in(tmp_path, text)
    assert (torch["cuda"], torch["stated"]) == (cuda, stated)
    assert torch["path"] == str(tmp_path / "torch")


BACKEND = (
    "import os\ndef get_requires_for_build_wheel(settings):\n    print('noise')\n    return ['wheel', os.getcwd()]\n"
)


def hook(folder: Path, text: str, backend: str = "own") -> dict[str, Any]:
    write_tree(folder, {"tools/own.py": text})
    request = {"tree": str(folder), "backend": backend, "backend_path": ["tools"]}
    found: dict[str, Any] = collected(python=sys.executable, hook=request)["hook"]
    return found


def test_the_hook_of_the_build_backend(tmp_path: Path) -> None:
    found = hook(tmp_path, BACKEND)
    assert (found["requirements"], found["failed"]) == (["wheel", str(tmp_path)], "")


def test_a_backend_without_the_hook_asks_for_nothing(tmp_path: Path) -> None:
    assert hook(tmp_path, "x = 1\n")["requirements"] == []


def test_an_object_in_a_backend_module(tmp_path: Path) -> None:
    text = "class A:\n    @staticmethod\n    def get_requires_for_build_wheel(s):\n        return ['a']\n"
    assert hook(tmp_path, text, "own:A")["requirements"] == ["a"]


@pytest.mark.parametrize("text", ["raise RuntimeError('torn')", "def get_requires_for_build_wheel(s): exit('torn')"])
def test_a_hook_that_fails(tmp_path: Path, text: str) -> None:
    found = hook(tmp_path, text)
    assert found["requirements"] == []
    assert "torn" in found["failed"]


def test_room_and_cores(tmp_path: Path) -> None:
    facts = collected(folders=[str(tmp_path / "not" / "there" / "yet")])
    assert next(iter(facts["disk"].values())) == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
    assert facts["memory"]["total"] >= facts["memory"]["available"] > 0
    assert 1 <= facts["cores"] <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("files", "limit", "cores"),
    [
        ({"memory.max": "1000000\n", "cpu.max": "100000 100000\n"}, 1_000_000, 1),
        ({"memory.max": "max\n", "cpu.max": "max 100000\n"}, None, 64),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None, 64),
        (
            {
                "memory/memory.limit_in_bytes": "5000\n",
                "cpu/cpu.cfs_quota_us": "250000",
                "cpu/cpu.cfs_period_us": "100000",
            },
            5000,
            2,
        ),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, 64),
        ({}, None, 64),
    ],
)
def test_limits_of_control_groups_of_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], limit: int | None, cores: int
) -> None:
    write_tree(tmp_path, files)
    real: Callable[..., Any] = open
    monkeypatch.setattr(
        machinefacts,
        "open",
        lambda path, **k: real(str(path).replace("/sys/fs/cgroup", str(tmp_path)), **k),
        raising=False,
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert collector.memory()["limit"] == limit
    assert collector.cores() == cores


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: OCF\noffset 0\n", {"aarch64": "OCF"}),
        ("enabled\ninterpreter /usr/bin/qemu-aarch64\nflags: \noffset 0\n", {"aarch64": ""}),
        ("disabled\ninterpreter /usr/bin/qemu-aarch64\nflags: F\n", {}),
        ("", {}),
    ],
)
def test_emulators_and_whether_containers_see_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: dict[str, str]
) -> None:
    write_tree(tmp_path, {"qemu-aarch64": text})
    monkeypatch.setattr(machinefacts.glob, "glob", lambda pattern: [str(tmp_path / "qemu-aarch64")])
    assert machinefacts.emulated() == expected


CXX = {
    "name": "c++",
    "commands": ["c++"],
    "variable": "CXX",
    "arguments": ["--version"],
    "compiles": {"name": "probe.cpp", "text": "#include <vector>\nint probe() { return 0; }\n"},
}


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_a_compiler_is_tried(tmp_path: Path) -> None:
    real = shutil.which("g++")
    assert real is not None
    whole = {"PATH": os.environ["PATH"], "CXX": "g++"}
    (found,) = collected(tools=[CXX], environment=whole)["tools"]["c++"]["on_path"][:1]
    assert found["compiles"] == {"status": 0, "output": ""}
    # A launcher before it, as compiler caches are used, is no compiler itself.
    make_tool(tmp_path / "bin", "launcher", 'exec "$@"')
    launched = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "CXX": "launcher g++ -O1"}
    (found,) = collected(tools=[CXX], environment=launched)["tools"]["c++"]["on_path"]
    assert (found["path"], found["compiles"]["status"]) == (f"{tmp_path}/bin/launcher", 0)
    assert "g++" in found["output"]
    # Without its library's headers it answers for its version all the same.
    make_tool(tmp_path / "bin", "torn", f'exec {real} -nostdinc++ "$@"')
    torn = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "CXX": "torn"}
    (found,) = collected(tools=[CXX], environment=torn)["tools"]["c++"]["on_path"]
    assert (found["status"], found["compiles"]["status"]) == (0, 1)
    assert found["compiles"]["output"].startswith("probe.cpp:1:10: fatal error: vector: No such file")


def test_repositories_that_answer_and_that_do_not(tmp_path: Path) -> None:
    make_tool(tmp_path, "git", 'case "$*" in *good*) exit 0;; *) echo "fatal: unable to access" >&2; exit 128;; esac')
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = collected(remotes=["https://good", "https://bad"], environment=environment)["remotes"]
    assert found == {
        "https://good": {"answers": True, "said": ""},
        "https://bad": {"answers": False, "said": "fatal: unable to access"},
    }


TOOLS = (Tool(name="c++", minimum="13"), Tool(name="ninja"), Tool(name="python.h"))


def test_a_cross_build_calls_the_compiler_of_its_machine() -> None:
    host = Host("x86_64", 2, 1 << 30)

    def compiler(machine: str, how: str) -> tuple[str, ...]:
        return demands(TOOLS, only=None, machine=machine, how=how, host=host)[0].commands

    assert compiler("aarch64", "cross") == ("aarch64-linux-gnu-g++",)
    assert compiler("x86_64", "cross") == ("c++", "g++", "clang++")
    assert compiler("aarch64", "emulate") == ("c++", "g++", "clang++")


def test_a_shape_demands_its_own_tools_only() -> None:
    host = this_host()
    assert [tool.name for tool in demands(TOOLS, only=("ninja",), machine="x86_64", how="native", host=host)] == [
        "ninja"
    ]
    assert demands(TOOLS, only=(), machine="x86_64", how="native", host=host) == ()
