"""Running cargo to fetch: a home of its own in the store, this site's registry, git as git does it, and its words.

cargo sees the caller's own configuration only where the site names no registry, since that then says how the network
is reached.  Whatever it fetches is held against the lock by its caller, so nothing here is trusted for its bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from builders.store.gitrun import remote, shown
from qualify.errors import PreflightError, UnavailableError
from qualify.lines import lines_of

CARGO_SECONDS = 3600
ASK_SECONDS = 120.0  # for a git server to say that it is there
_NETWORK = re.compile(
    r"Could(?:n't| not) resolve host|spurious network error|failed to connect|Connection refused|timed? ?out|"
    r"failed to download|Could not connect|unable to access|download of \S+ failed|network failure|error: 50\d"
)
_UPDATING = re.compile(r"unable to update (\S+://\S+?)(?:[?#]\S*)?$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cargo:
    """How cargo fetches at this site.

    ``home`` is its folder in the store: what it downloaded once, it does not download again.  ``registry`` is a sparse
    registry's URL or a local registry (a folder with ``index``); "" leaves it to the caller's configuration.
    ``replaced`` are beginnings of git URLs with what stands for them.
    """

    home: Path
    registry: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)

    def run(self, arguments: Sequence[str], folder: Path, where: str) -> str:
        """What cargo printed.

        :param folder: where it runs; configuration of the tree it works on is not looked at.
        :param where: the lock, for the errors.
        :raises UnavailableError: no cargo, no network, or no end.
        :raises PreflightError: cargo refused; its reason is named.
        """
        program = shutil.which("cargo")
        if program is None:
            raise UnavailableError(
                "cargo is not on PATH here, and it is what fetches crates", where=where, action="install Rust"
            )
        self.home.mkdir(parents=True, exist_ok=True)
        command = [program, *self._configured(folder), *arguments]
        code, output, complaint = _execute(command, folder, self._environment(), where)
        if code != 0:
            raise _failed(complaint, arguments[0], where)
        return output

    def ask(self, repository: str) -> None:
        """Ask a git server whether it is there.

        :raises UnavailableError: it does not answer.
        """
        answer = remote("ls-remote", repository, "HEAD", settings=dict(self._addresses()), seconds=ASK_SECONDS)
        if answer.code != 0:
            raise UnavailableError(
                f"the server does not answer: {answer.reason()}",
                where=shown(repository),
                action="mend the network, or name another address: `git_mirrors` in matrix.local.yaml",
            )

    def downloaded(self, name: str, version: str) -> Iterator[Path]:
        """The ``.crate`` files of that name that registries gave."""
        return self.home.glob(f"registry/cache/*/{name}-{version}.crate")

    def forget_unpacked(self) -> None:
        """Remove what was unpacked beside the downloads: it is in the vendored folder too."""
        shutil.rmtree(self.home / "registry" / "src", ignore_errors=True)

    def _configured(self, folder: Path) -> list[str]:
        """The options that bring in this site's settings, or the caller's."""
        if self.registry:
            path = folder / "site.toml"
            path.write_text(self._source_settings(), encoding="utf-8")
            return ["--config", str(path)]
        return [part for path in _callers_configuration() for part in ("--config", str(path))]

    def _source_settings(self) -> str:
        lines = ["[source.crates-io]", 'replace-with = "site"', "[source.site]"]
        if "://" in self.registry:
            url = self.registry if self.registry.startswith("sparse+") else f"sparse+{self.registry}"
            lines.append(f"registry = {json.dumps(url if url.endswith('/') else url + '/')}")
        else:
            lines.append(f"local-registry = {json.dumps(self.registry)}")
        return "\n".join(lines) + "\n"

    def _addresses(self) -> list[tuple[str, str]]:
        return [(f"url.{target}.insteadOf", prefix) for prefix, target in self.replaced.items()]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO_", "GIT_CONFIG"))}
        pairs = self._addresses()
        git = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(pairs))}
        for number, (key, value) in enumerate(pairs):
            git[f"GIT_CONFIG_KEY_{number}"], git[f"GIT_CONFIG_VALUE_{number}"] = key, value
        bundle = os.environ.get("SSL_CERT_FILE", "")
        authorities = {"CARGO_HTTP_CAINFO": bundle} if bundle else {}
        ours = {
            "CARGO_HOME": str(self.home),
            "CARGO_NET_GIT_FETCH_WITH_CLI": "true",
            "CARGO_NET_RETRY": "2",
            "RUSTUP_HOME": _rustup_home(),
        }
        return {**kept, **git, **authorities, **ours}


def _callers_configuration() -> list[Path]:
    """The caller's own settings of cargo; its home is another one here, so they are handed over by name."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    return [path for name in ("config.toml", "config") if (path := home / name).is_file()][:1]


def _rustup_home() -> str:
    """rustup finds its toolchains from CARGO_HOME's neighbour, unless it is told."""
    return os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")


def _execute(command: list[str], folder: Path, environment: dict[str, str], where: str) -> tuple[int, str, str]:
    """Exit status, output and error output.  A session of its own, so that cargo's gits end with it."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, complaint = process.communicate(timeout=CARGO_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(
            f"cargo did not end within {CARGO_SECONDS} s", where=where, action="run it again: it goes on where it was"
        ) from error
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, output, shown(complaint)


def _failed(complaint: str, doing: str, where: str) -> UnavailableError | PreflightError:
    """What cargo said, told apart: the network, or the lock."""
    lines = [line.strip() for line in lines_of(complaint) if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    # cargo says what it was doing, and last, below the last "Caused by:", why that failed.
    causes = [after for before, after in pairwise(lines) if before == "Caused by:"]
    said = (causes[-1:] or errors or lines or ["no word"])[0].removeprefix("error: ")
    if (repository := _UPDATING.search(complaint)) and repository[1] not in said:
        said = f"{repository[1]}: {said}"
    if _NETWORK.search(complaint):
        return UnavailableError(
            f"cargo can't fetch them: {said}",
            where=where,
            action="mend the network, or name a registry that answers: `crates` in matrix.local.yaml",
        )
    return PreflightError(f"cargo {doing} failed: {said}", where=where, action="see what the tree's lock asks for")
