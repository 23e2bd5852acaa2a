"""Targets side by side: who builds what, one at a time an engine, and what a host takes with it when it goes."""

from __future__ import annotations

import hashlib
import io
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from builders import fleet as fleets
from builders.cli import main
from builders.commands import build_all
from builders.fleet import THIS_HOST, Host, Job, ask_engine, find_hosts, fitting, jobs_for, next_job, unplaced, way
from builders.fleet_child import Child, Outcome, error_lines, printable
from builders.fleet_run import Fleet, Result, worst_code
from builders.fleet_view import FleetView
from builders.plan import How
from qualify.errors import ConfigurationError, UnavailableError
from qualify.files import locked
from qualify.matrix import load
from tests.unit.builders_support import sdist_matrix

X86 = Host("x86", "docker", "ssh://x86", "x86_64", "28", 8, 1 << 34)
ARM = Host("arm", "docker", "ssh://arm", "aarch64", "28", 8, 1 << 34)
HERE = Host("here", "docker", "unix:///var/run/docker.sock", "x86_64", "20", 2, 1 << 34)
SELF = Host(THIS_HOST, "local", THIS_HOST, "x86_64")
GONE = replace(ARM, machine="", fault="connection refused")


def job(target: str = "a", machine: str = "aarch64", how: How = "native", host: str = "", engine: str = "auto") -> Job:
    return Job(target, machine, engine, how, host)


@pytest.mark.parametrize(
    ("wanted", "host", "expected"),
    [
        (job(), ARM, "native"),
        (job(), X86, None),  # nobody asked for anything but its own machine
        (job(), GONE, None),
        (job(how="cross"), X86, "cross"),
        (job(how="cross"), ARM, "native"),  # better than what it says
        (job(how="emulate"), X86, "emulate"),
        (job(how="emulate"), ARM, "native"),
        (job(how="cross", machine="x86_64"), ARM, None),  # only x86_64 has cross compilers
        (job(how="emulate", machine="x86_64"), ARM, "emulate"),
        (job(how="cross", host="arm"), X86, None),
        (job(how="cross", host="x86"), X86, "cross"),
        (job(machine="x86_64"), SELF, "native"),
        (job(how="cross"), SELF, None),
        (job(how="emulate"), SELF, None),
        (job(machine="x86_64", engine="docker"), SELF, None),
        (job(machine="x86_64", engine="local"), HERE, None),
    ],
)
def test_how_a_host_makes_a_wheel(wanted: Job, host: Host, expected: How | None) -> None:
    assert way(wanted, host) == expected


def test_a_target_goes_to_a_host_of_its_machine_where_one_answers() -> None:
    assert fitting(job(how="cross"), (X86, ARM, HERE)) == (ARM,)
    assert fitting(job(how="cross"), (X86, GONE, HERE)) == (X86, HERE)
    assert fitting(job(how="emulate"), (X86, ARM)) == (ARM,)
    assert fitting(job(machine="x86_64"), (X86, ARM, HERE, SELF)) == (X86, HERE)
    assert fitting(job(machine="x86_64"), (SELF, GONE)) == (SELF,)
    assert fitting(job(), (X86, HERE)) == ()


def test_a_queue_is_in_the_order_of_the_targets_and_leaves_to_others_what_they_do_better() -> None:
    waiting = [job("a", how="cross"), job("b", "x86_64"), job("c", "x86_64", host="here")]
    hosts = (X86, ARM, HERE)
    assert [next_job(host, waiting, hosts) for host in hosts] == [waiting[1], waiting[0], waiting[1]]
    assert next_job(X86, waiting[2:], hosts) is None


def test_why_nothing_builds_a_target_names_the_hosts_and_the_way_out() -> None:
    error = unplaced(job(), (X86, GONE))
    assert isinstance(error, UnavailableError)
    assert "no host makes its aarch64 wheel native" in str(error)
    assert "x86: x86_64" in str(error)
    assert "arm: connection refused" in str(error)
    assert "--how cross or emulate by name" in error.action
    assert "its engine host arm is not there: connection refused" in str(unplaced(job(host="arm"), (X86, GONE)))
    assert "its engine host x86 is a machine x86_64" in str(unplaced(job(host="x86"), (X86, ARM)))


# What the matrix and the site say


def test_jobs_are_those_of_the_matrix_each_once(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path)
    names = list(loaded.matrix.targets)
    jobs = jobs_for(loaded, [*names, names[0]])
    assert [one.target for one in jobs] == names
    assert {one.how for one in jobs_for(loaded, names, "emulate")} == {"emulate"}


def test_a_target_that_is_bound_to_a_host_that_nobody_names_is_refused_before_anything_starts(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path)
    loaded.path.with_name("matrix.local.yaml").write_text("version: 1\nengine_hosts: {x86_64-sm90: nowhere}\n")
    with pytest.raises(ConfigurationError, match="no engine host nowhere"):
        jobs_for(load(loaded.path), ["x86_64-sm90"])


def test_a_host_that_does_not_answer_says_why_and_the_others_are_there(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path)
    text = f"version: 1\nengines: {{away: {{url: 'unix://{tmp_path}/none.sock'}}}}\n"
    loaded.path.with_name("matrix.local.yaml").write_text(text)
    loaded = load(loaded.path)
    answers = fleets.EngineInfo("docker", "28", ("aarch64",), cores=4, memory=5)
    hosts = find_hosts(loaded, [job()], lambda place: answers if place is None else ask_engine(place))
    assert [(host.name, host.machine) for host in hosts] == [("here", "aarch64"), ("away", "")]
    assert hosts[0].usable
    assert "none.sock" in hosts[1].fault


def test_hosts_that_no_target_may_use_are_not_asked(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path)
    text = "version: 1\nengines: {a: {url: 'ssh://a'}, b: {url: 'ssh://b'}}\n"
    loaded.path.with_name("matrix.local.yaml").write_text(text)
    asked = []

    def probe(place: Any) -> fleets.EngineInfo:
        asked.append(place.url)
        return fleets.EngineInfo("docker", "28", ("x86_64",))

    hosts = find_hosts(load(loaded.path), [job(host="b", engine="docker")], probe)
    assert asked == ["ssh://b"]
    assert [host.name for host in hosts] == ["b"]


def test_this_host_itself_is_a_place_where_no_docker_answers_here(tmp_path: Path) -> None:
    def nothing(place: Any) -> fleets.EngineInfo:
        raise UnavailableError("no engine")

    hosts = find_hosts(sdist_matrix(tmp_path), [job()], nothing)
    assert [(host.name, host.usable) for host in hosts] == [("here", False), (THIS_HOST, True)]
    assert len(find_hosts(sdist_matrix(tmp_path), [job(engine="docker")], nothing)) == 1


# The run over the hosts


@dataclass
class Built:
    """A build that ends when it is let, for what happens between builds."""

    outcome: Outcome = field(default_factory=lambda: Outcome(0, wheel="w.whl", built=True))
    may_end: threading.Event = field(default_factory=threading.Event)
    told_to_end: bool = False
    killed: bool = False
    broken: bool = False

    def wait(self) -> Outcome:
        assert self.may_end.wait(30)
        assert not self.broken
        return self.outcome

    def end(self) -> None:
        self.told_to_end = True
        self.outcome = Outcome(130, fault="interrupted")
        self.may_end.set()

    def kill(self) -> None:
        self.killed = True
        self.may_end.set()


class Watcher:
    """A listener that lets builds end by its own rule, at every tick."""

    def __init__(self, act: Callable[[Watcher], None]) -> None:
        self.running: dict[str, Built] = {}
        self.where: dict[str, tuple[str, How]] = {}
        self.most: dict[str, int] = {}
        self.lost: list[str] = []
        self.order: list[str] = []
        self._act = act

    def start(self, wanted: Job, host: Host, how: How, heard: Callable[[str], None]) -> Any:
        self.running[wanted.target] = Built()
        return self.running[wanted.target]

    def started(self, wanted: Job, host: Host, how: How) -> None:
        self.where[wanted.target] = (host.name, how)
        self.order.append(f"+{wanted.target}")

    def heard(self, wanted: Job, text: str) -> None:
        pass

    def ended(self, result: Result) -> None:
        self.order.append(f"-{result.job.target}")
        self.running.pop(result.job.target, None)

    def gone(self, host: Host) -> None:
        self.lost.append(host.name)

    def tick(self) -> None:
        self._act(self)


def let_all_end(watcher: Watcher) -> None:
    for built in watcher.running.values():
        built.may_end.set()


def run(hosts: list[Host], jobs: list[Job], act: Callable[[Watcher], None], **faults: str) -> tuple[Any, Watcher]:
    watcher = Watcher(act)
    results = Fleet(hosts, watcher.start, lambda host: faults.get(host.name, ""), watcher).run(jobs)
    return results, watcher


def test_each_host_builds_at_the_same_time_and_one_target_at_a_time() -> None:
    def when_both_run(watcher: Watcher) -> None:
        if set(watcher.running) >= {"a", "b"} or "-a" in watcher.order:
            let_all_end(watcher)

    results, watcher = run([X86, ARM], [job("a"), job("b", "x86_64"), job("c")], when_both_run)
    assert [result.job.target for result in results] == ["a", "b", "c"]
    assert watcher.where == {"a": ("arm", "native"), "b": ("x86", "native"), "c": ("arm", "native")}
    assert watcher.order.index("-a") < watcher.order.index("+c")


def test_two_names_of_one_engine_build_one_target_at_a_time() -> None:
    other = replace(X86, name="again")
    together = []

    def look(watcher: Watcher) -> None:
        together.append(len(watcher.running))
        let_all_end(watcher)

    results, _ = run([X86, other], [job("a", "x86_64"), job("b", "x86_64", host="again")], look)
    assert [result.host for result in results] == ["x86", "again"]
    assert max(together) == 1


def test_two_hosts_share_what_both_can_do() -> None:
    results, watcher = run([X86, HERE], [job(name, "x86_64") for name in "abcd"], let_all_end)
    assert {result.host for result in results} == {"x86", "here"}
    assert watcher.order[:2] == ["+a", "+b"]


def test_a_host_that_goes_away_fails_its_target_alone_and_what_waited_goes_elsewhere() -> None:
    def fail_on_arm(watcher: Watcher) -> None:
        if "a" in watcher.running:
            watcher.running["a"].outcome = Outcome(5, 3.0, fault="killed: its container ended")
        let_all_end(watcher)

    jobs = [job("a", how="cross"), job("b", how="cross"), job("c", host="arm"), job("d"), job("e", "x86_64")]
    results, watcher = run([X86, ARM], jobs, fail_on_arm, arm="connection refused")
    a, b, c, d, e = results
    assert watcher.lost == ["arm"]
    assert (a.host, a.outcome.code, a.host_gone) == ("arm", 4, "connection refused")
    assert "its engine host arm went away while it was built: connection refused" in a.outcome.fault
    assert a.outcome.details == ("killed: its container ended",)
    assert (b.host, b.how, b.outcome.code) == ("x86", "cross", 0)  # as it says of itself
    assert (c.host, c.outcome.code) == ("", 4)
    assert "its engine host arm is not there: went away" in c.outcome.fault
    assert (d.host, d.outcome.code) == ("", 4)  # nothing was asked for in place of its own machine
    assert (e.host, e.outcome.code) == ("x86", 0)
    assert worst_code(results) == 4


def test_a_build_that_fails_on_a_host_that_answers_fails_alone() -> None:
    def fail(watcher: Watcher) -> None:
        if "a" in watcher.running:
            watcher.running["a"].outcome = Outcome(5, fault="no such header")
        let_all_end(watcher)

    results, watcher = run([ARM], [job("a"), job("b")], fail)
    assert [(result.outcome.code, result.host_gone) for result in results] == [(5, ""), (0, "")]
    assert watcher.lost == []
    assert worst_code(results) == 5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # what it is about
def test_a_result_that_cannot_be_read_does_not_stop_the_others() -> None:
    def spoil(watcher: Watcher) -> None:
        if "a" in watcher.running:
            watcher.running["a"].broken = True
        let_all_end(watcher)

    results, _ = run([ARM], [job("a"), job("b")], spoil)
    assert [result.outcome.code for result in results] == [70, 0]


def test_ctrl_c_tells_every_build_to_end_and_waits_for_it() -> None:
    seen: list[Built] = []

    def press(watcher: Watcher) -> None:
        seen.extend(watcher.running.values())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([X86, ARM], [job("a"), job("b", "x86_64"), job("c")], press)
    assert [(built.told_to_end, built.killed) for built in seen] == [(True, False), (True, False)]


@pytest.mark.parametrize(
    ("codes", "worst"),
    [([0, 0], 0), ([], 0), ([0, 5, 4], 4), ([8, 5], 5), ([8, 2], 8), ([2, 0], 2), ([4, 130], 130), ([70, 130], 70)],
)
def test_the_gravest_code_is_that_of_the_run(codes: list[int], worst: int) -> None:
    assert worst_code([Result(job(), "", None, Outcome(code)) for code in codes]) == worst


# One build as a process


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What runs in place of ``python -m builders …``: a Python program whose text is given."""

    def put(text: str) -> None:
        path = tmp_path / "program"
        path.write_text(f"#!{python}\nimport json, os, signal, sys, time\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    python = sys.executable
    return put


def answer(wheel: Path, sha256: str) -> str:
    document = {"path": str(wheel), "built": True, "key": "k", "wheel": {"sha256": sha256}}
    return f"print({json.dumps(document)!r})"


def test_a_wheel_is_held_against_its_receipt(program: Callable[[str], None], tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    wheel.write_bytes(b"wheel")
    good = hashlib.sha256(b"wheel").hexdigest()
    program(answer(wheel, good))
    done = Child(["build"]).wait()
    assert (done.code, done.wheel, done.sha256, done.key, done.built) == (0, str(wheel), good, "k", True)
    program(answer(wheel, "0" * 64))
    other = Child(["build"]).wait()
    assert other.code == 5
    assert f"holds sha256 {good}, and its receipt says {'0' * 64}" in other.fault
    program(answer(tmp_path / "none.whl", good))
    assert Child(["build"]).wait().code == 2


@pytest.mark.parametrize("text", ["print('wheel.whl')", "print('{}')", "print('[1]')", "pass"])
def test_an_answer_that_is_no_receipt_is_a_bug(program: Callable[[str], None], text: str) -> None:
    program(text)
    done = Child(["build"]).wait()
    assert done.code == 70
    assert "no receipt" in done.fault


def test_a_failed_build_hands_on_its_error_and_its_last_line(program: Callable[[str], None]) -> None:
    program(
        "print('one', file=sys.stderr)\n"
        "print('error: docker: gone\\n  to do: start it', file=sys.stderr, flush=True)\n"
        "sys.exit(4)"
    )
    heard: list[str] = []
    child = Child(["build"], heard.append)
    done = child.wait()
    assert (done.code, done.fault) == (4, "docker: gone")
    assert done.details == ("error: docker: gone", "  to do: start it")
    assert heard == ["one", "error: docker: gone", "  to do: start it"]
    assert child.line == "  to do: start it"


def test_a_build_whose_process_is_ended_is_no_failure_of_the_build(program: Callable[[str], None]) -> None:
    program("os.kill(os.getpid(), signal.SIGKILL)")
    done = Child(["build"]).wait()
    assert (done.code, done.fault) == (130, "its process was ended by signal 9")


def test_a_build_that_is_told_to_end_cleans_up_first(program: Callable[[str], None], tmp_path: Path) -> None:
    program(
        "def end(*_):\n"
        f"    open({str(tmp_path / 'clean')!r}, 'w').close()\n"
        "    sys.exit(130)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', file=sys.stderr, flush=True)\n"
        "time.sleep(60)"
    )
    ready = threading.Event()
    child = Child(["build"], lambda text: ready.set())
    assert ready.wait(20)
    child.end()
    assert child.wait().code == 130
    assert (tmp_path / "clean").exists()
    child.end()  # of one that has ended there is nothing to end
    child.kill()


def test_output_without_end_is_held_in_bounds(program: Callable[[str], None]) -> None:
    program("sys.stderr.write('x' * 3_000_000 + '\\n' + 'line\\n' * 5000); sys.exit(5)")
    heard: list[str] = []
    done = Child(["build"], heard.append).wait()
    assert max(map(len, heard)) <= 2000
    assert done.fault == "line"


def test_a_real_command_that_fails_is_heard(tmp_path: Path) -> None:
    done = Child(["build", "nowhere", "--matrix", str(sdist_matrix(tmp_path).path), "--json"]).wait()
    assert done.code == 2
    assert "no target nowhere" in done.fault
    assert any(line.startswith("  expected: one of") for line in done.details)


def test_colours_and_jumps_of_a_tool_do_not_reach_the_terminal() -> None:
    assert printable("\x1b[91mred\x1b[0m\x1b[2K and\x07 bell\x9b") == "red and  bell "
    assert error_lines(()) == ()


# What people see


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def seen(stderr: io.StringIO, clock: Callable[[], float] = time.monotonic) -> str:
    jobs = [job("a"), job("b")]
    with FleetView(jobs, stderr, clock=clock, width=200) as view:
        view.hosts((ARM, replace(X86, machine="", fault="[bold]no answer")))
        view.started(jobs[0], ARM, "native")
        view.heard(jobs[0], "source: axpy")
        for step in range(5):
            view.heard(jobs[0], f"  [{step}/9] Building")
        view.heard(jobs[0], "  to do: start it")
        view.tick()
        view.ended(Result(jobs[0], "arm", "native", Outcome(0, 65, wheel="out/a.whl", built=True)))
        view.gone(replace(ARM, fault="went away: refused"))
        view.ended(Result(jobs[1], "", None, Outcome(4, fault="no host")))
    return stderr.getvalue()


def test_elsewhere_than_on_a_terminal_each_line_has_its_target_and_progress_is_rare() -> None:
    lines = seen(io.StringIO(), clock=lambda: 0.0).splitlines()
    assert lines == [
        "host arm: docker 28 on aarch64",
        "host x86: [bold]no answer",
        "a: building on arm, native",
        "a: source: axpy",
        "a:   [0/9] Building",
        "a:   to do: start it",
        "a: built, out/a.whl",
        "host arm: went away: refused; it gets no more work",
        "b: failed (4): no host",
    ]


def test_on_a_terminal_there_is_a_table() -> None:
    text = seen(Terminal())
    assert "[bold]no answer" in text
    last = text[text.rindex("target") :]
    assert "1:05" in last
    assert "out/a.whl" in last
    assert "failed (4)" in last
    assert "no host" in last


# The command


def test_the_arguments_of_a_build_name_its_host_and_only_a_way_that_is_not_its_own(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path)
    (one, *_) = jobs_for(loaded, ["x86_64-sm90"])
    common = ["build", "x86_64-sm90", "--matrix", str(loaded.path), "--out", "o/x86_64-sm90", "--json"]
    assert build_all.build_arguments(loaded, Path("o"), one, HERE, "native") == [*common, "--engine", "docker"]
    assert build_all.build_arguments(loaded, Path("o"), one, SELF, "native") == [*common, "--engine", "local"]
    assert build_all.build_arguments(loaded, Path("o"), one, ARM, "emulate") == [
        *(*common, "--engine", "docker", "--engine-host", "arm", "--how", "emulate")
    ]


def test_build_all_says_what_no_host_builds_and_ends_with_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = sdist_matrix(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    text = f"version: 1\nengines: {{away: {{url: 'unix://{tmp_path}/away.sock'}}}}\nengine_hosts: {{x86_64-sm90: away}}"
    loaded.path.with_name("matrix.local.yaml").write_text(text)
    assert main(["build-all", "x86_64-sm90", "--matrix", str(loaded.path), "--out", str(tmp_path), "--json"]) == 4
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    (target,) = document["targets"]
    assert (document["code"], target["code"], target["host"], target["wheel"]) == (4, 4, "", "")
    assert "its engine host away is not there" in target["fault"]
    assert "error: x86_64-sm90: " in captured.err
    assert "Traceback" not in captured.err


def test_a_target_that_the_matrix_does_not_have_stops_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sdist_matrix(tmp_path).path
    assert main(["build-all", "x86_64-sm90", "nowhere", "--matrix", str(path)]) == 2
    assert "no target nowhere" in capsys.readouterr().err


def test_ctrl_c_of_the_command_ends_its_builds(tmp_path: Path) -> None:
    """The real command with a real build, which is ended while another process holds its output folder."""
    loaded = sdist_matrix(tmp_path)
    out = tmp_path / "out"
    (out / "x86_64-sm90").mkdir(parents=True)
    with locked(out / "x86_64-sm90" / "x86_64-sm90", purpose="a test"):
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "builders", "build-all", "x86_64-sm90", "--matrix", str(loaded.path)),
                *("--out", str(out), "--json"),
            ],
            cwd=Path(__file__).resolve().parents[2],
            env={"PATH": "/usr/bin:/bin", "DOCKER_HOST": f"unix://{tmp_path}/none.sock", "HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert process.stderr is not None
        for line in process.stderr:
            if "building on this host" in line:
                break
        deadline = time.monotonic() + 30
        while not (started := children.read_text().split()) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.5)  # it waits for the folder by now, or is still starting: both are ended
        process.send_signal(signal.SIGINT)
        out_text, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert out_text == ""
        assert started
        assert not any(Path(f"/proc/{pid}").exists() for pid in started)
