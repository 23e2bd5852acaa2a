"""What a machine has: memory, cores, disk, and the machines that it emulates; facts, without any judgement.

This file travels with the collector (builders/toolsearch_collector.py), in front of its text: the standard library
alone, and Python 3.8.
"""

# ruff: noqa: PTH100, PTH112, PTH119, PTH120, PTH123, PTH207
from __future__ import annotations

import glob
import os
import shutil


def read_number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def memory() -> dict[str, int | None]:
    """Bytes: what the machine has, what is free for new work, and what this control group may still take."""
    facts: dict[str, int | None] = {"total": None, "available": None}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        facts["total"] = int(lines["MemTotal"].split()[0]) * 1024
        facts["available"] = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    # Control groups: version 2 says "max" where there is no limit, version 1 a number near 2**63.
    paths = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
    limits = [limit for limit in map(read_number, paths) if limit is not None and limit < 1 << 60]
    return {**facts, "limit": min(limits) if limits else None}


def cores() -> int:
    """Cores that this process may use, with the control group's quota."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()[:2]
    except (OSError, ValueError):
        quota, period = (
            str(read_number(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") or -1) for name in ("quota", "period")
        )
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        count = min(count, max(1, int(quota) // int(period)))
    return count


def disk(folders: list[str]) -> dict[str, int | None]:
    """Bytes free where each folder is, or would be made."""
    facts: dict[str, int | None] = {}
    for folder in folders:
        there = os.path.abspath(folder)
        while not os.path.isdir(there) and os.path.dirname(there) != there:
            there = os.path.dirname(there)
        try:
            facts[folder] = shutil.disk_usage(there).free
        except OSError:
            facts[folder] = None
    return facts


def emulated() -> dict[str, str]:
    """Machines whose programs this kernel hands to an emulator (binfmt_misc entries named qemu-MACHINE) -> flags.

    With flag F the kernel holds the emulator open, so that it is there inside containers too.
    """
    found = {}
    for path in glob.glob("/proc/sys/fs/binfmt_misc/qemu-*"):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                lines = file.read(4096).split("\n")
        except OSError:
            continue
        if lines and lines[0].strip() == "enabled":
            flags = [line.partition(":")[2].strip() for line in lines if line.startswith("flags:")]
            found[os.path.basename(path)[len("qemu-") :]] = "".join(flags)
    return found
