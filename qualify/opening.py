"""Open a wheel: one pass over its members, several at a time, each inflated in memory alone.

Members go to threads, biggest first.  What takes time (inflating, hashing) releases the interpreter's lock, so that
threads keep every core as busy as processes would, without pickling facts and without forking a process that may run
threads of its own.  The sum of the members in memory at one time is bounded.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from qualify.decompress import Libraries
from qualify.errors import AssayError, MalformedError, UnavailableError, UnverifiedError, UsageError
from qualify.facts import FACTS_VERSION, Depth, Member, MemberKind, Problem, ProblemKind, WheelFacts
from qualify.readers.archive import STORED, Archive, ArchiveMember, read_archive
from qualify.readers.binary import Limits, Problems
from qualify.readers.device import Context
from qualify.readers.distinfo import is_text_member
from qualify.readers.members import read_member
from qualify.spreading import Helpers
from qualify.statements import Statements, read_statements

Progress = Callable[[str, int, int], None]
_BESIDE_LARGEST = 64 << 20  # inflated bytes of the members that are read beside the largest one
_BATCH = 4 << 20  # small members go to a thread together, this many inflated bytes of them
_GIVE_UP_EVERY = 0.05  # seconds after which the pages of the archive that were read are let go
_MOST_WORKERS = 8


@dataclass(frozen=True, slots=True)
class _Read:
    index: int
    member: Member
    problems: tuple[Problem, ...]
    content: bytes | None  # of a text member


def read_wheel(
    path: Path,
    *,
    depth: Depth = Depth.KERNELS,
    workers: int | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> WheelFacts:
    """Read everything that the checks need, once.

    :param depth: at ``HEADERS`` every member is inflated, hashed and read, but no payload of device code: entries have
        no kernels and are not ``readable``.  Such facts are for looking at; nothing judges them.
    :param workers: members read at one time; default: the cores that this process may use, 8 at most.
    :param progress: called with a member's path, the bytes done and all bytes (stored bytes of the archive).
    :raises UsageError: no such file, or not named ``.whl``.
    :raises MalformedError: no zip archive, so that nothing can be read; smaller faults are problems in the facts.
    :raises UnavailableError: the file changed while it was read.
    """
    if path.suffix != ".whl":
        raise UsageError("is not named as a wheel", where=str(path), expected="NAME-VERSION-TAGS.whl")
    if not path.is_file():
        raise UsageError("no such file", where=str(path), action="give the path of a wheel")
    limits = limits or Limits()
    context = Context.make(Libraries(), limits, depth)
    with path.open("rb") as file:
        before = os.fstat(file.fileno())
        if before.st_size == 0:
            raise MalformedError("is empty", where=path.name, expected="a wheel", action="fetch it again")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        digest, archive, reads, texts = _read_all(mapped, path.name, workers or _cores(), progress, context)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise UnavailableError("changed while it was read", where=str(path), action="run again once it is whole")
    return _facts(path.name, before.st_size, digest, archive, reads, texts, depth)


def _cores() -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(_MOST_WORKERS, available))


def _read_all(
    mapped: mmap.mmap, name: str, workers: int, progress: Progress | None, context: Context
) -> tuple[str, Archive, list[_Read], Statements]:
    """The sha256 of the whole file, its directory, every member but folders in archive order, and the texts."""
    done, in_memory, reads = 0, 0, list[_Read]()
    running: dict[Future[list[_Read]], list[tuple[int, ArchiveMember]]] = {}
    with ThreadPoolExecutor(workers, thread_name_prefix="member") as pool:
        digest = pool.submit(_digest, mapped)
        context = replace(context, spread=Helpers(pool, workers - 1).spread)
        try:
            archive = _directory(mapped, name, context.limits)
            members = [(index, member) for index, member in enumerate(archive.members) if not member.is_directory]
            waiting = _batches(members, workers)
            most_in_memory = max(map(_inflated, waiting), default=0) + _BESIDE_LARGEST
            total = sum(member.stored_size for member in archive.members) or 1
            paths = [member.path for _, member in members]
            lacking = {index for index, member in members if is_text_member(member.path)}
            texts = None if lacking else pool.submit(read_statements, name, paths, {}, context.limits)
            while waiting or running or not digest.done():
                while len(running) < workers:
                    fitting = _first_fitting(waiting, most_in_memory - in_memory if running else None)
                    if fitting is None:
                        break
                    batch = waiting.pop(fitting)
                    in_memory += _inflated(batch)
                    running[pool.submit(_read_batch, mapped, batch, context)] = batch
                ended = wait(running, timeout=_GIVE_UP_EVERY, return_when=FIRST_COMPLETED).done
                if not running:
                    wait([digest], timeout=_GIVE_UP_EVERY)
                # Those that are being read come back from the page cache; else a big member would count twice.
                _forget(mapped)
                for future in ended:
                    batch = running.pop(future)
                    in_memory -= _inflated(batch)
                    reads += future.result()
                    done += sum(member.stored_size for _, member in batch)
                    if progress:
                        progress(batch[-1][1].path, min(done, total), total)
                    lacking -= {index for index, _ in batch}
                if texts is None and not lacking:
                    # Early, while big members are inflated: what it takes is the interpreter alone.
                    reads.sort(key=_index)
                    contents = {read.member.path: read.content for read in reads if read.content is not None}
                    texts = pool.submit(read_statements, name, paths, contents, context.limits)
            assert texts is not None
            return digest.result(), archive, sorted(reads, key=_index), texts.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _index(read: _Read) -> int:
    return read.index


def _directory(mapped: mmap.mmap, name: str, limits: Limits) -> Archive:
    try:
        return read_archive(mapped, limits)
    except MalformedError as error:
        raise MalformedError(error.what, where=name, expected=error.expected, action=error.action) from error


def _batches(members: Sequence[tuple[int, ArchiveMember]], workers: int) -> list[list[tuple[int, ArchiveMember]]]:
    """Big members alone, those with the most stored bytes first; small ones together.

    The small ones are read while the first big ones keep the other threads busy: small ones take the interpreter, of
    which there is one, big ones libraries that do without it.
    """
    big: list[list[tuple[int, ArchiveMember]]] = []
    small: list[list[tuple[int, ArchiveMember]]] = []
    size = 0
    for each in sorted(members, key=lambda item: -item[1].stored_size):
        if each[1].size >= _BATCH:
            big.append([each])
            continue
        if not small or size + each[1].size > _BATCH:
            small.append([])
            size = 0
        small[-1].append(each)
        size += each[1].size
    first = max(1, workers - 1)
    return [*big[:first], *small, *big[first:]]


def _inflated(batch: Sequence[tuple[int, ArchiveMember]]) -> int:
    return sum(member.size for _, member in batch)


def _first_fitting(waiting: Sequence[list[tuple[int, ArchiveMember]]], room: int | None) -> int | None:
    """The first batch that fits into ``room``; any batch does where nothing else is in memory."""
    for index, batch in enumerate(waiting):
        if room is None or _inflated(batch) <= room:
            return index
    return None


def _digest(mapped: mmap.mmap) -> str:
    digest = hashlib.sha256()
    step = 8 << 20
    with memoryview(mapped) as view:
        for start in range(0, len(mapped), step):
            digest.update(view[start : start + step])
    return digest.hexdigest()


def _forget(mapped: mmap.mmap) -> None:
    """Let go of the pages that were read, so that the archive does not count as this process's memory."""
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _read_batch(mapped: mmap.mmap, batch: Sequence[tuple[int, ArchiveMember]], context: Context) -> list[_Read]:
    return [_read_one(mapped, index, member, context) for index, member in batch]


def _read_one(mapped: mmap.mmap, index: int, stored: ArchiveMember, context: Context) -> _Read:
    problems = Problems(stored.path)
    unread = Member(stored.path, MemberKind.DATA, stored.size, stored.stored_size, "", None, (), ())
    if stored.data_offset < 0:
        return _Read(index, unread, (), None)  # the archive's own problems say why
    try:
        data = _inflate(mapped, stored, context)
        if context.decompressors.crc32(data) != stored.crc:
            problems.malformed("stored bytes", "do not match their CRC")
        member = read_member(stored.path, data, stored.stored_size, context, problems)
    except MalformedError as error:
        problems.malformed("stored bytes", error.what)
        return _Read(index, unread, _kept(problems, context), None)
    except AssayError as error:
        problems.unreadable("stored bytes", error.what)
        return _Read(index, unread, _kept(problems, context), None)
    except MemoryError:
        problems.add(ProblemKind.ENVIRONMENT, "stored bytes", f"this host has no memory for its {stored.size} bytes")
        return _Read(index, unread, _kept(problems, context), None)
    content = _text(stored.path, data, context, problems) if is_text_member(stored.path) else None
    return _Read(index, member, _kept(problems, context), content)


def _text(path: str, data: bytes, context: Context, problems: Problems) -> bytes | None:
    limits = context.limits
    limit = limits.record_size if path.endswith(".dist-info/RECORD") else limits.text_size
    if len(data) > limit:
        problems.unreadable("file", f"is larger than the {limit} bytes that are read as text")
    elif not context.texts.take(len(data)):
        problems.unreadable("file", f"comes after {limits.texts_size} bytes of text, which is all that is read")
    else:
        return data
    return None


def _kept(problems: Problems, context: Context) -> tuple[Problem, ...]:
    """The member's problems; only the first where the wheel has too many already."""
    found = problems.finish()
    return found if context.problems.take(len(found)) else found[:1]


def _inflate(mapped: mmap.mmap, stored: ArchiveMember, context: Context) -> bytes:
    if stored.size > context.limits.member_size:
        raise UnverifiedError(f"is larger than the {context.limits.member_size} bytes that are looked at")
    if not context.members.take(stored.size):
        raise UnverifiedError(f"the wheel inflates to more than the {context.limits.total_size} bytes looked at")
    start, end = stored.data_offset, stored.data_offset + stored.stored_size
    if stored.method == STORED:
        return mapped[start:end]
    with memoryview(mapped) as view, view[start:end] as raw:
        return context.decompressors.deflate(raw, stored.size)


def _facts(
    filename: str, size: int, digest: str, archive: Archive, reads: Sequence[_Read], texts: Statements, depth: Depth
) -> WheelFacts:
    name, version, build, tags = texts.name
    problems = [*archive.problems, *texts.problems, *(problem for read in reads for problem in read.problems)]
    return WheelFacts(
        version=FACTS_VERSION,
        depth=depth,
        filename=filename,
        size=size,
        sha256=digest,
        name=name,
        wheel_version=version,
        build_tag=build,
        tags=tags,
        dist_info=texts.dist_info,
        version_modules=texts.version_modules,
        path_files=texts.path_files,
        members=tuple(read.member for read in reads),
        problems=tuple(problems),
    )
