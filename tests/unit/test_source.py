"""The source at the pin: what is read from it, and every refusal by name."""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path

import pytest

from builders.source import open_source
from builders.source_model import commits_agree
from builders.source_sdist import stated_commit
from builders.source_unpack import unpack
from qualify.errors import MalformedError, PreflightError, UnavailableError
from tests.unit.builders_support import FILES, make_sdist, sdist_matrix, write_matrix, write_tree


def test_an_sdist_states_its_commit_and_keeps_it(tmp_path: Path) -> None:
    said: list[str] = []
    source = open_source(sdist_matrix(tmp_path), tmp_path / "work", progress=said.append)
    assert source.kind == "sdist"
    assert source.tree == tmp_path / "work" / "tiny-1.0"
    assert (source.commit, source.commit_from) == ("4ba787ec9", "tiny/_version.py")
    assert (source.version, source.version_from) == ("1.0", "PKG-INFO")
    assert source.origin == "tiny-1.0.tar.gz"
    assert source.environment == {"SETUPTOOLS_SCM_PRETEND_METADATA": '{node="g4ba787ec9", dirty=false}'}
    assert (source.tree / "pyproject.toml").is_file()
    assert said


def test_only_what_a_plan_reads(tmp_path: Path) -> None:
    files = {**FILES, "csrc/a.cu": "x", "cmake/deep/b.cmake": "", "tiny/__init__.py": ""}
    source = open_source(sdist_matrix(tmp_path, files), tmp_path / "work", whole=False)
    assert not source.whole
    there = {str(path.relative_to(source.tree)) for path in source.tree.rglob("*") if path.is_file()}
    assert there == {*FILES, "cmake/deep/b.cmake"}


def test_a_longer_pin_agrees_with_what_a_shorter_statement_says(tmp_path: Path) -> None:
    loaded = sdist_matrix(tmp_path, pinned="4ba787ec9" + "0" * 31)
    assert open_source(loaded, tmp_path / "work").commit == "4ba787ec9"


def test_an_sdist_of_another_commit(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="made from commit 4ba787ec9") as caught:
        open_source(sdist_matrix(tmp_path, pinned="5ba787ec9"), tmp_path / "work")
    assert caught.value.expected == "5ba787ec9"
    assert "tiny/_version.py" in caught.value.where


def test_an_sdist_that_states_none(tmp_path: Path) -> None:
    files = {**FILES, "tiny/_version.py": "__commit_id__ = None\n"}
    with pytest.raises(PreflightError, match="states no commit"):
        open_source(sdist_matrix(tmp_path, files), tmp_path / "work")


def test_an_sdist_that_is_asked_for_none(tmp_path: Path) -> None:
    path, sha256 = make_sdist(tmp_path)
    replacements = {"  commit_files: [tiny/_version.py]\n": ""}
    loaded = write_matrix(tmp_path, f"{{sdist: {path.name}, sha256: {sha256}}}", "4ba787ec9", replacements)
    source = open_source(loaded, tmp_path / "work")
    assert (source.commit, source.environment) == ("", {})


def test_an_sdist_with_other_bytes(tmp_path: Path) -> None:
    path, _ = make_sdist(tmp_path)
    loaded = write_matrix(tmp_path, f"{{sdist: {path.name}, sha256: {'f' * 64}}}", "4ba787ec9")
    with pytest.raises(MalformedError, match="has sha256"):
        open_source(loaded, tmp_path / "work")


def test_a_folder_that_is_in_use(tmp_path: Path) -> None:
    write_tree(tmp_path / "work", {"mine.txt": "mine"})
    with pytest.raises(PreflightError, match="not empty"):
        open_source(sdist_matrix(tmp_path), tmp_path / "work")


@pytest.mark.parametrize(
    ("name", "text", "commit"),
    [
        ("v.py", "__commit_id__ = commit_id = 'g4ba787ec9'", "4ba787ec9"),
        ("v.py", "__commit_id__: str = 'g4ba787ec9'", "4ba787ec9"),
        ("v.py", "git_version = '4ba787ec9f'", "4ba787ec9f"),
        ("v.py", "__commit_id__ = None", ""),
        ("v.py", "__commit_id__ = 'g4ba7'", ""),
        ("v.py", "__version__ = '4ba787ec9'", ""),
        ("v.py", "__commit_id__ = print('x')", ""),
        (".git_archival.txt", "node: 4ba787ec90000000000000000000000000000000\n", "4ba787ec9" + "0" * 31),
        (".git_archival.txt", "node: $Format:%H$\n", ""),
        ("PKG-INFO", "Name: a\nVersion: 0.1.dev3+g4ba787ec9\n\ng0000000", "4ba787ec9"),
        ("PKG-INFO", "Name: a\nVersion: 0.1.dev3+cu130.g4ba787ec9.d20260101\n", "4ba787ec9"),
        ("PKG-INFO", "Name: a\nVersion: 0.1\n", ""),
    ],
)
def test_the_files_that_state_a_commit(tmp_path: Path, name: str, text: str, commit: str) -> None:
    write_tree(tmp_path, {name: text})
    assert stated_commit(tmp_path, (name,)) == ((commit, name) if commit else ("", ""))


def test_two_statements_that_disagree(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "__commit_id__ = 'g4ba787ec9'", "b.py": "__commit_id__ = 'g5ba787ec9'"})
    with pytest.raises(PreflightError, match=r"two commits: 4ba787ec9 in a\.py and 5ba787ec9 in b\.py"):
        stated_commit(tmp_path, ("a.py", "b.py"))


def test_the_longest_of_two_that_agree_counts(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "__commit_id__ = 'g4ba787ec9'", "b.py": "__commit_id__ = 'g4ba787ec90'"})
    assert stated_commit(tmp_path, ("a.py", "b.py")) == ("4ba787ec90", "b.py")


@pytest.mark.parametrize("text", ["__commit_id__ = (", "x = " + "(" * 5000, "\0"])
def test_a_statement_that_is_no_python(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"a.py": text})
    with pytest.raises(PreflightError, match="cannot be parsed"):
        stated_commit(tmp_path, ("a.py",))


def test_a_statement_outside_the_tree_is_not_read(tmp_path: Path) -> None:
    write_tree(tmp_path, {"outside.py": "__commit_id__ = 'g4ba787ec9'", "tree/a.py": "x = 1"})
    assert stated_commit(tmp_path / "tree", ("../outside.py",)) == ("", "")


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


def archive_of(folder: Path, *members: tarfile.TarInfo) -> Path:
    path = folder / "tiny-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for info in members:
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    return path


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ([member("top/a"), member("../out")], "unsafe to unpack"),
        ([member("top/a"), member("top/../../out")], "unsafe to unpack"),
        ([member("top/l", tarfile.SYMTYPE, "../../etc")], "unsafe to unpack"),
        ([member("top/l", tarfile.SYMTYPE, "/etc/passwd")], "unsafe to unpack"),
        ([member("top/l", tarfile.LNKTYPE, "../../etc")], "unsafe to unpack"),
        ([member("top/l", tarfile.LNKTYPE, "top/gone")], "unsafe to unpack"),
        ([member("/top/a")], "unsafe to unpack"),
        ([member(".", tarfile.DIRTYPE)], "unsafe to unpack"),
        ([member("top/d", tarfile.SYMTYPE, "../x/../.."), member("top/d/out")], "unsafe to unpack"),
        ([member("top/p", tarfile.FIFOTYPE)], "unsafe to unpack"),
        ([member("top/d", tarfile.CHRTYPE)], "unsafe to unpack"),
        ([member("a/x"), member("b/x")], "holds a, b at its top"),
        ([member("file")], "holds file at its top"),
        ([], "holds nothing at its top"),
    ],
)
def test_an_archive_that_leads_out_or_has_no_top_folder(
    tmp_path: Path, members: list[tarfile.TarInfo], what: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(PreflightError, match=what):
        unpack(archive_of(tmp_path, *members), work)
    assert not (tmp_path / "out").exists()


def test_links_inside_and_the_modes_of_files(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    tool, plain = member("top/bin/tool", size=3), member("top/./a", size=4)
    tool.mode, plain.mode, plain.mtime = 0o4755, 0o666, 1_700_000_000
    links = [member("top/bin/s", tarfile.SYMTYPE, "../a"), member("top/h", tarfile.LNKTYPE, "top/bin/tool")]
    top = unpack(archive_of(tmp_path, member("top", tarfile.DIRTYPE), tool, plain, *links, plain), work)
    assert (top / "bin/tool").stat().st_mode & 0o7777 == 0o755
    assert (top / "a").stat().st_mode & 0o7777 == 0o644
    assert (top / "a").stat().st_mtime == 1_700_000_000
    assert (top / "bin/s").read_bytes() == b"xxxx"
    assert (top / "h").read_bytes() == b"xxx"
    assert not (top / "h").is_symlink()


def test_a_link_that_an_earlier_member_made_is_not_written_through(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    file = member("top/a", size=3)
    again = member("top/l", size=4)
    top = unpack(archive_of(tmp_path, file, member("top/l", tarfile.SYMTYPE, "a"), again), work)
    assert (top / "a").read_bytes() == b"xxx"
    assert (top / "l").read_bytes() == b"xxxx"


def test_an_archive_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr("builders.source_unpack.MAX_BYTES", 100)
    with pytest.raises(PreflightError, match="unpacks to more than"):
        unpack(archive_of(tmp_path, member("top/a", size=60), member("top/b", size=60)), work)
    assert not (work / "top" / "b").exists()


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x1f\x8b\x08\x00" + b"\0" * 20])
def test_an_archive_that_is_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "tiny-1.0.tar.gz"
    path.write_bytes(data)
    with pytest.raises(PreflightError, match="cannot be read"):
        unpack(path, tmp_path)


def test_a_truncated_archive(tmp_path: Path) -> None:
    path, _ = make_sdist(tmp_path, {**FILES, "large.txt": "".join(str(n) for n in range(9000))})
    path.write_bytes(path.read_bytes()[:-3000])
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(PreflightError, match="cannot be read"):
        unpack(path, work)


def test_an_archive_whose_bytes_are_damaged(tmp_path: Path) -> None:
    path, _ = make_sdist(tmp_path, {**FILES, "large.txt": "".join(str(n) for n in range(9000))})
    whole = path.read_bytes()
    for at in range(20, len(whole), 997):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        work = tmp_path / f"work-{at}"
        work.mkdir()
        # A byte that decides nothing (a time in the header) may differ; nothing but a refusal may come of the others.
        with contextlib.suppress(PreflightError):
            assert unpack(path, work).name == "tiny-1.0"


def test_another_kind_of_archive(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match=r"not a \.tar\.gz"):
        unpack(tmp_path / "tiny-1.0.zip", tmp_path)


@pytest.mark.parametrize(
    ("stated", "pinned", "agree"),
    [
        ("4ba787ec9", "4ba787ec9", True),
        ("4ba787ec9", "4ba787e", True),
        ("4ba787e", "4ba787ec9", True),
        ("4ba787ec9", "4ba787ec8", False),
        ("4ba7", "4ba787ec9", False),
        ("", "4ba787ec9", False),
    ],
)
def test_commits_agree_as_far_as_both_are_written(stated: str, pinned: str, agree: bool) -> None:
    assert commits_agree(stated, pinned) is agree


def test_a_source_with_results_of_an_earlier_build(tmp_path: Path) -> None:
    files = {**FILES, "build/lib.linux-x86_64-cpython-312/tiny/_old.abi3.so": "stale"}
    with pytest.raises(PreflightError, match=r"results of an earlier build: build/lib\.linux-x86_64-cpython-312"):
        open_source(sdist_matrix(tmp_path, files), tmp_path / "work")
    kept = {**FILES, "build/library.cmake": "", "build/tools/a.py": ""}
    (tmp_path / "other").mkdir()
    assert open_source(sdist_matrix(tmp_path / "other", kept), tmp_path / "more").commit


def test_an_sdist_has_no_history_for_a_fork(tmp_path: Path) -> None:
    path, sha256 = make_sdist(tmp_path)
    upstream = f"  upstream: {{repository: https://example.org/up, base: {'a' * 40}}}\nbuild:"
    loaded = write_matrix(tmp_path, f"{{sdist: {path.name}, sha256: {sha256}}}", "4ba787ec9", {"build:": upstream})
    with pytest.raises(PreflightError, match=r"no history, so pin\.upstream cannot be proven"):
        open_source(loaded, tmp_path / "work")


def test_an_sdist_with_a_compiled_file(tmp_path: Path) -> None:
    files = {**FILES, "tiny/_C.abi3.so": "\x7fELF\x02"}
    with pytest.raises(PreflightError, match=r"brings 1 compiled file, .* as it is: tiny/_C\.abi3\.so") as caught:
        open_source(sdist_matrix(tmp_path, files), tmp_path / "work")
    assert "build.prebuilt" in caught.value.action
    # A plan reads a few files alone and builds nothing.
    assert open_source(sdist_matrix(tmp_path, files), tmp_path / "plan", whole=False).commit


def test_an_sdist_of_the_index_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, sha256 = make_sdist(tmp_path)
    loaded = write_matrix(tmp_path, f'{{sdist: "tiny==1.0", sha256: {sha256}}}', "4ba787ec9")
    kept = tmp_path / "cache" / "wheel-assay" / "files" / sha256[:2] / sha256
    kept.mkdir(parents=True)
    (kept / path.name).write_bytes(b"other bytes")
    with pytest.raises(UnavailableError, match="offline, and the cache lacks the sdist tiny==1"):
        open_source(loaded, tmp_path / "work", offline=True)
    (kept / path.name).write_bytes(path.read_bytes())
    assert open_source(loaded, tmp_path / "work", offline=True).commit == "4ba787ec9"
    # One that lies beside the matrix needs no network anyway.
    assert open_source(sdist_matrix(tmp_path), tmp_path / "work2", offline=True).commit
