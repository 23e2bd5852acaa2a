"""Record the logs of builds that fail, and of some that end well, as tests of what names their causes.

    python -m tools.record_logs [NAME…] [--find-links DIR]

Each recipe of ``tests/data/logs/recipes.yaml`` is built for real in a container of the Docker engine.  The base images
are those that ``python -m builders base`` makes.  A log is the output as it came, but for its middle where it is long;
what was left out is said in its place.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from qualify.fetching import fetch_sdist
from tools.failing_builds import Place, Recipe, read_recipes

HEAD, TAIL = 120, 160  # lines of a long log that are kept
WIDTH = 2000  # characters of a line that are kept
LABEL = "wheel-assay-logs"
FETCH = """
set -e
python3 -m venv /env/venv
/env/venv/bin/pip install -q --no-compile "$@"
home=$(find /env/venv/lib -maxdepth 5 -path '*/nvidia/cu13' -o -maxdepth 5 -path '*/nvidia/cuda_nvcc' | head -n 1)
[ -z "$home" ] || ln -sfn "$home" /env/cuda
if [ -e /env/cuda/lib ]; then
    ln -sfn lib /env/cuda/lib64
    for file in /env/cuda/lib/lib*.so.*; do ln -sfn "$(basename "$file")" "${file%%.so.*}.so"; done
fi
for other in /env/venv/lib/python3*/site-packages/nvidia/cuda_runtime; do
    [ ! -e "$other" ] || { cp -r "$other"/. /env/cuda/; ln -sfn lib /env/cuda/lib64
      ln -sfn libcudart.so.12 /env/cuda/lib/libcudart.so; }
done
touch /env/complete
"""
BUILD = (
    "python -m pip wheel --verbose --no-build-isolation --no-deps --no-index --no-cache-dir --progress-bar off "
    "--wheel-dir /room/out ."
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--find-links", default="", help="a folder of wheels that no index has")
    arguments = parser.parse_args()
    recipes, sdists = read_recipes()
    if unknown := set(arguments.names) - set(recipes):
        parser.error(f"no recipe is named {', '.join(sorted(unknown))}")
    wrong = []
    for name in arguments.names or recipes:
        recipe = recipes[name]
        code, text = record(recipe, sdists, arguments.find_links)
        recipe.log.write_text(trimmed(text), encoding="utf-8")
        print(f"{name}: exit {code}, {len(text.splitlines())} lines, {recipe.kind or 'no cause'}", flush=True)
        if (code != 0) != recipe.fails:
            wrong.append(name)
    if wrong:
        print(f"ended otherwise than the recipe says: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


def record(recipe: Recipe, sdists: dict[str, str], find_links: str) -> tuple[int, str]:
    """Build; the exit code and everything that was printed."""
    image = image_of(recipe.place)
    volume = environment_of(recipe.place, image, find_links)
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        tree = room / "source"
        tree.mkdir()
        if recipe.sdist:
            unpack(fetch_sdist(recipe.sdist, sdists[recipe.sdist]), tree)
            tree = next(tree.iterdir())
        for path, text in recipe.files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text, encoding="utf-8")
        subprocess.run(["chmod", "-R", "a+rwX", str(room)], check=True)
        inside = f"/room/{tree.relative_to(room)}"
        variables = {
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "PATH": "/env/venv/bin:/env/cuda/bin:/usr/bin:/bin",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "MAX_JOBS": "2",
            **({"CUDA_HOME": "/env/cuda", "CUDACXX": "/env/cuda/bin/nvcc"} if has_nvcc(recipe.place) else {}),
            **recipe.environment,
        }
        script = f"{recipe.before + '; ' if recipe.before else ''}exec {BUILD}"
        cut = ("timeout", "--signal=KILL", str(recipe.seconds)) if recipe.seconds else ()
        command = [
            "docker",
            "run",
            "--rm",
            "--network=none",
            "--user=1000:1000",
            f"--workdir={inside}",
            "--label",
            LABEL,
        ]
        command += [f"--volume={volume}:/env:ro", f"--volume={room}:/room", *recipe.docker]
        command += [part for key, value in variables.items() for part in ("--env", f"{key}={value}")]
        done = subprocess.run(
            [*command, image, *cut, "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        subprocess.run(
            ["docker", "run", "--rm", f"--volume={room}:/room", image, "sh", "-c", "rm -rf /room/*"], check=True
        )
    return done.returncode, done.stdout.decode(errors="replace")


def has_nvcc(place: Place) -> bool:
    return any("nvcc" in text for text in place.requirements)


def image_of(place: Place) -> str:
    """The image with Debian's packages; made once."""
    install = f"apt-get -q -y --no-install-recommends install {' '.join(place.packages)}"
    text = f"FROM {place.base}\nRUN apt-get -q update && {install}\n"
    tag = f"{LABEL}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if subprocess.run(["docker", "image", "inspect", tag], capture_output=True, check=False).returncode:
        subprocess.run(
            ["docker", "build", "-q", "--network=host", "--tag", tag, "-"],
            input=text,
            text=True,
            check=True,
            capture_output=True,
        )
    return tag


def environment_of(place: Place, image: str, find_links: str) -> str:
    """A volume with the venv of a place; made once."""
    digest = hashlib.sha256(f"{image} {place.requirements} {FETCH}".encode()).hexdigest()[:12]
    volume = f"{LABEL}-{digest}"
    run = ["docker", "run", "--rm", f"--volume={volume}:/env"]
    if subprocess.run([*run, image, "test", "-e", "/env/complete"], capture_output=True, check=False).returncode:
        run += ["--network=host"]
        authorities = Path("/etc/ssl/certs/ca-certificates.crt")
        if authorities.is_file():
            run += [f"--volume={authorities}:{authorities}:ro", "--env", f"PIP_CERT={authorities}"]
        if find_links:
            run += [f"--volume={find_links}:/links:ro", "--env", "PIP_FIND_LINKS=/links"]
        subprocess.run([*run, image, "bash", "-c", FETCH, "fetch", *place.requirements], check=True)
    return volume


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
        tar.extractall(folder, filter="data")


def trimmed(text: str) -> str:
    """A log with its middle left out where it is long, and with overlong lines cut."""
    lines = [line if len(line) <= WIDTH else f"{line[:WIDTH]} […]" for line in text.splitlines()]
    if len(lines) > HEAD + TAIL + 1:
        left_out = len(lines) - HEAD - TAIL
        lines = [*lines[:HEAD], f"[… {left_out} lines left out …]", *lines[-TAIL:]]
    return "".join(f"{line.rstrip()}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
