"""What a build's environment is made of, and the script that makes it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.engines import Paths
from builders.environment import Prepared, build_variables, environment_spec, script, toolchain_file
from builders.environment_script import FailedError, interpreter, lay_out, link_libraries, prepare, provided
from builders.plan import Plan
from builders.planning import make_plan
from builders.receipts.files import find_built, tools_used
from builders.toolkit import PINS, pinned_toolkit, toolkit
from qualify.errors import BuildError, ConfigurationError
from tests.support.wheel import write_wheel
from tests.unit.builders_support import make_tool, sdist_matrix

SHORT = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_plan(sdist_matrix(tmp_path), "x86_64-sm90")


def request(folder: Path, **changes: Any) -> dict[str, Any]:
    whole = {
        "mode": "isolated",
        "folder": str(folder),
        "key": "k1",
        "python": [SHORT],
        "requirements": [],
        "target_requirements": [],
        "target_platforms": [],
        "cuda_home": "",
        "interpreter": sys.executable,
    }
    return {**whole, **changes}


def test_every_part_of_a_toolkit_is_pinned() -> None:
    for version, pins in PINS.items():
        made = toolkit(version, ("nvcc", "cudart"))
        assert made.requirements[0] == f"cuda-toolkit[nvcc,cudart]=={version}"
        assert {text.partition("==")[0] for text in made.requirements[1:]} == set(pins)
        assert made.target == ()


def test_a_cross_build_takes_what_is_linked_from_the_targets_packages() -> None:
    made = toolkit("13.0.3", ("nvcc",), cross_to="aarch64")
    assert made.target_platforms == ("manylinux2014_aarch64", "manylinux_2_28_aarch64")
    assert "nvidia-cuda-runtime==13.0.96" in made.target
    assert not [text for text in made.target if "nvcc" in text]


def test_an_unknown_toolkit_is_named() -> None:
    assert pinned_toolkit("13.0") == "13.0.3"
    assert pinned_toolkit("9.9") == "9.9"
    with pytest.raises(ConfigurationError, match=r"9\.9"):
        toolkit("9.9", ("nvcc",))


def test_the_key_is_of_all_that_an_environment_is_made_of(plan: Plan) -> None:
    from dataclasses import replace

    spec = environment_spec(plan, "x86_64", "isolated")
    assert spec.key == environment_spec(plan, "x86_64", "isolated").key
    others = [
        environment_spec(plan, "aarch64", "isolated"),
        environment_spec(plan, "x86_64", "host"),
        environment_spec(plan, "x86_64", "isolated", interpreter="/usr/bin/python3.12"),
        environment_spec(replace(plan, requirements=("wheel",)), "x86_64", "isolated"),
        environment_spec(replace(plan, python=("3.12",)), "x86_64", "isolated"),
        environment_spec(replace(plan, toolkit=None), "x86_64", "isolated"),
    ]
    assert len({spec.key, *(other.key for other in others)}) == len(others) + 1
    assert environment_spec(plan, "x86_64", "isolated", cuda_home="/x").key == spec.key
    assert spec.request("/env")["requirements"][0] == plan.requirements[0]
    assert environment_spec(plan, "x86_64", "host", cuda_home="/x").request("/env")["requirements"] == []


def test_the_script_is_the_standard_librarys_alone() -> None:
    import ast

    tree = ast.parse(script())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names)
    ast.parse(script(), feature_version=(3, 8))


def test_an_environment_is_made_once_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    (folder / "rest").mkdir(parents=True)
    (folder / "file").write_text("of one that was never complete")
    made = prepare(request(folder))
    assert not (folder / "rest").exists()
    assert (made["reused"], made["cuda_home"]) == (False, "")
    assert Path(made["python"]).is_relative_to(folder)
    assert "pip" in made["distributions"]
    again = prepare(request(folder))
    assert again == {**made, "reused": True}
    assert prepare(request(folder, key="k2"))["reused"] is False


def test_an_incomplete_environment_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    prepare(request(folder))
    (folder / "complete.json").write_text('{"key": "k1"')
    assert prepare(request(folder))["reused"] is False


def test_the_hosts_own_interpreter_gets_nothing_installed(tmp_path: Path) -> None:
    made = prepare(request(tmp_path / "env", mode="host", requirements=["no-such-thing==1"], cuda_home="/opt/cuda"))
    assert made["python"] == sys.executable
    assert made["cuda_home"] == "/opt/cuda"
    assert sorted(path.name for path in (tmp_path / "env").iterdir()) == [".preparing", "complete.json"]


def test_the_answer_is_the_last_line_of_the_script(tmp_path: Path) -> None:
    command = [sys.executable, "-c", script(), json.dumps(request(tmp_path / "env", mode="host"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert Prepared.of(done.stdout).python == sys.executable
    command[-1] = json.dumps(request(tmp_path / "env2", python=["9.9"]))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "environment: no interpreter of 9.9 here; found" in done.stdout


@pytest.mark.parametrize("output", ["", "no json", "{}", '{"python": 3}', '["x"]'])
def test_what_is_no_answer_is_said(output: str) -> None:
    with pytest.raises(BuildError, match="no answer"):
        Prepared.of(output)


def test_an_interpreter_that_is_not_wanted_is_named(tmp_path: Path) -> None:
    assert interpreter(["9.9", SHORT])["executable"] == sys.executable
    with pytest.raises(FailedError, match=r"9\.9 or 9\.8"):
        interpreter(["9.9", "9.8"])
    about = json.dumps({"version": "3.99", "full": "3.99.1", "purelib": "/x"})
    other = make_tool(tmp_path, "python3.99", f"echo '{about}'")
    assert interpreter(["3.99"], str(other))["full"] == "3.99.1"


@pytest.fixture
def purelib(tmp_path: Path) -> Path:
    tree = tmp_path / "site" / "nvidia" / "cu13"
    make_tool(tree / "bin", "nvcc", "echo nvcc")
    (tree / "nvvm" / "bin").mkdir(parents=True)
    for name in ("include/own.h", "include/both.h", "lib/libcudart.so.13", "lib/libcudadevrt.a"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("program's machine")
    return tmp_path / "site"


def test_a_toolkit_is_laid_out_as_linkers_and_nvcc_look_for_it(purelib: Path, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    home = Path(lay_out(request(tmp_path / "env"), str(tmp_path / "env"), {"purelib": str(purelib)}, {}))
    assert (home / "bin" / "nvcc").is_file()
    assert (home / "lib64" / "libcudadevrt.a").is_file()
    assert (home / "lib" / "libcudart.so").readlink() == Path("libcudart.so.13")
    link_libraries(str(purelib / "nvidia" / "cu13"))  # a second time changes nothing


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, which is all that pip sees."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


@pytest.mark.parametrize("locked", [False, True])
def test_in_a_cross_layout_programs_are_ours_and_libraries_the_targets(
    purelib: Path, tmp_path: Path, wheelhouse: Path, locked: bool
) -> None:
    inside = {f"nvidia/cu13/{name}": "target's machine" for name in ("include/both.h", "lib/libcudart.so.13")}
    made = write_wheel(wheelhouse, "x", "1", "py3-none-manylinux2014_aarch64", {}, files=inside)
    folder = tmp_path / "env"
    folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    asked = request(folder, target_requirements=["x==1"], target_platforms=["manylinux2014_aarch64"])
    if locked:
        asked["target_locks"] = {SHORT: [f"x==1 --hash=sha256:{sha256(made)}"]}
    hashes: dict[str, str] = {}
    about = {"purelib": str(purelib), "version": SHORT}
    home = Path(lay_out(asked, str(folder), about, hashes))
    assert (home / "include" / "own.h").read_text() == "program's machine"
    assert (home / "include" / "both.h").read_text() == "target's machine"
    assert (home / "lib64" / "libcudart.so").read_text() == "target's machine"
    assert not (home / "bin").is_symlink()  # nvcc looks beside where it really lies
    assert hashes == {"x for manylinux2014_aarch64": sha256(made)}


def test_a_locked_part_of_the_target_with_other_bytes_is_refused(
    purelib: Path, tmp_path: Path, wheelhouse: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_wheel(wheelhouse, "x", "1", "py3-none-manylinux2014_aarch64", {})
    folder = tmp_path / "env"
    folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    locks = {SHORT: [f"x==1 --hash=sha256:{'0' * 64}"]}
    platforms = ["manylinux2014_aarch64"]
    asked = request(folder, target_requirements=["x==1"], target_platforms=platforms, target_locks=locks)
    with pytest.raises(FailedError):
        lay_out(asked, str(folder), {"purelib": str(purelib), "version": SHORT}, {})
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in capfd.readouterr().err


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_is_installed_is_recorded_by_its_bytes(tmp_path: Path, wheelhouse: Path) -> None:
    needed = write_wheel(wheelhouse, "needed", "2", "py3-none-any", {})
    thing = write_wheel(wheelhouse, "thing", "1", "py3-none-any", {}, requires=["needed>=1"])
    made = prepare(request(tmp_path / "env", requirements=["thing"]))
    assert made["hashes"] == {"thing": sha256(thing), "needed": sha256(needed)}
    assert made["repair_python"] == ""


def test_a_locked_environment_is_of_the_locked_bytes(
    tmp_path: Path, wheelhouse: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    thing = write_wheel(wheelhouse, "thing", "1", "py3-none-any", {})
    write_wheel(wheelhouse, "thing", "2", "py3-none-any", {})
    locks = {SHORT: [f"thing==1 --hash=sha256:{sha256(thing)}"]}
    made = prepare(request(tmp_path / "env", requirements=["thing"], locks=locks))
    assert made["distributions"]["thing"] == "1"
    write_wheel(wheelhouse, "thing", "1", "py3-none-any", {}, files={"thing/more.py": "import os\n"})
    with pytest.raises(FailedError, match="ended with"):
        prepare(request(tmp_path / "env2", requirements=["thing"], locks=locks))
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in capfd.readouterr().err
    assert not (tmp_path / "env2" / "complete.json").exists()


def test_a_lock_without_this_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match=rf"no entry for Python {SHORT}, only for 2\.7"):
        prepare(request(tmp_path / "env", requirements=["thing"], locks={"2.7": ["thing==1"]}))


def test_what_the_backend_asks_for_comes_to_the_environment_that_is_there(tmp_path: Path, wheelhouse: Path) -> None:
    write_wheel(wheelhouse, "thing", "1", "py3-none-any", {})
    more = write_wheel(wheelhouse, "more", "3", "py3-none-any", {})
    asked = request(tmp_path / "env", requirements=["thing"])
    prepare(asked)
    made = prepare({**asked, "also": ["more>=2"]})
    assert (made["distributions"]["thing"], made["distributions"]["more"]) == ("1", "3")
    assert made["hashes"]["more"] == sha256(more)
    assert (made["reused"], prepare({**asked, "also": ["more>=2"]})["reused"]) == (False, True)
    with pytest.raises(FailedError, match="lacks more"):
        prepare(request(tmp_path / "host", mode="host", also=["more"]))


def test_what_the_backend_asks_for_leaves_locked_versions_as_they_are(
    tmp_path: Path, wheelhouse: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    thing = write_wheel(wheelhouse, "thing", "1", "py3-none-any", {})
    write_wheel(wheelhouse, "thing", "2", "py3-none-any", {})
    write_wheel(wheelhouse, "more", "3", "py3-none-any", {}, requires=["thing>=2"])
    locks = {SHORT: [f"thing==1 --hash=sha256:{sha256(thing)}"]}
    with pytest.raises(FailedError, match="ended with"):
        prepare(request(tmp_path / "env", requirements=["thing"], locks=locks, also=["more"]))
    assert "more 3 depends on thing>=2" in "".join(capfd.readouterr())


def test_tools_of_repair_have_an_environment_of_their_own(tmp_path: Path, wheelhouse: Path) -> None:
    mender = write_wheel(wheelhouse, "mender", "1", "py3-none-any", {})
    made = prepare(request(tmp_path / "env", repair=["mender==1"]))
    assert "mender" not in made["distributions"]
    assert made["repair_tools"]["mender"] == "1"
    assert made["hashes"] == {"mender for repair": sha256(mender)}
    command = [made["repair_python"], "-c", "import importlib.metadata as m; print(m.version('mender'))"]
    assert subprocess.check_output(command, text=True).strip() == "1"


def test_without_a_toolkit_there_is_no_cuda_home(tmp_path: Path) -> None:
    assert lay_out(request(tmp_path), str(tmp_path), {"purelib": str(tmp_path / "site")}, {}) == ""


def test_what_torch_brings_is_listed_where_there_is_torch(purelib: Path) -> None:
    assert provided(str(purelib)) == []
    (purelib / "torch" / "lib").mkdir(parents=True)
    (purelib / "torch" / "lib" / "libtorch.so").write_text("")
    assert provided(str(purelib)) == ["libcudart.so.13", "libtorch.so"]


def test_the_variables_of_a_compile(plan: Plan) -> None:
    prepared = Prepared("/env/venv/bin/python", "3.12.1", "/env/lib", "", {}, (), False)
    paths = Paths("/s", "/o", "/env", "/c", "/t")
    plain = build_variables(plan, prepared, paths, "x86_64")
    assert "CUDA_HOME" not in plain
    assert plain["PATH"].split(":")[0] == "/env/venv/bin"
    assert plain["MAX_JOBS"] == plain["CMAKE_BUILD_PARALLEL_LEVEL"]
    assert not [name for name in plain if name.startswith("_PYTHON")]
    assert os.environ.get("HOME", "-") not in plain.values()


def test_a_toolchain_names_its_machine() -> None:
    assert "set(CMAKE_CUDA_HOST_COMPILER aarch64-linux-gnu-g++)" in toolchain_file("aarch64")


def test_tools_are_those_that_a_build_would_call() -> None:
    said = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\nBuild x"
    facts = {
        "tools": {
            "nvcc": {"on_path": [{"path": "/a/nvcc", "output": said}, {"path": "/b/nvcc", "output": ""}]},
            "ninja": {"on_path": [{"path": "/a/ninja", "output": "1.12\n"}]},
            "cargo": {"on_path": []},
        }
    }
    assert tools_used(facts) == {
        "nvcc": {"path": "/a/nvcc", "version": "Cuda compilation tools, release 13.0, V13.0.88"},
        "ninja": {"path": "/a/ninja", "version": "1.12"},
    }
    assert tools_used({}) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1, "key": "k", "engine": 3, "wheel": 4}'])
def test_a_receipt_that_is_none_finds_no_wheel(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.whl").write_bytes(b"x")
    (tmp_path / "x.whl.receipt.json").write_text(text)
    assert find_built(tmp_path, "k", "docker") is None
