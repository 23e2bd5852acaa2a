"""How many compile jobs run at a time, from what the place of the build really has when the compile begins.

A plan counts with what the engine says of its machine, which for another machine is all of its memory.  What other
programs have taken there is known inside alone.  Nor is a GPU's memory always its own: where it is the machine's
(GB10, Thor: "unified"), what a model on the GPU has taken is missing from what is available, and so it counts here.
"""

from __future__ import annotations

from dataclasses import dataclass

from builders.engines import Room, Step

# Lines "name value": what the kernel says, then the limits of the control group (versions 2 and 1), then the board.
_SCRIPT = r"""
cores=$(nproc 2>/dev/null) && echo "cores $cores"
while read -r name value unit; do
    case $name in MemTotal:) echo "total ${value}000";; MemAvailable:) echo "available ${value}000";; esac
done </proc/meminfo
for file in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    if [ -r $file ]; then echo "limit $(cat $file)"; fi
done
if [ -r /sys/fs/cgroup/cpu.max ]; then read -r quota period </sys/fs/cgroup/cpu.max
elif [ -r /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then
    quota=$(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us); period=$(cat /sys/fs/cgroup/cpu/cpu.cfs_period_us)
fi
[ -n "$quota" ] && echo "quota $quota" && echo "period $period"
for file in /proc/device-tree/model /sys/class/dmi/id/product_name; do
    if [ -r $file ]; then echo "board $(tr -d '\000' <$file)"; fi
done
exit 0
"""
_NO_LIMIT = 1 << 60  # bytes; version 1 writes "none" as a number near 2**63
_UNIFIED = ("GB10", "DGX Spark", "Thor", "Orin", "Jetson")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a build runs: cores, and bytes of memory; 0 where the place doesn't say."""

    cores: int = 0
    total: int = 0  # of the machine
    available: int = 0  # there for new work, without swapping
    limit: int = 0  # of the control group
    unified: bool = False  # the GPU's memory is the machine's

    @property
    def memory(self) -> int:
        """What the compile may take: what is available, within the limit; the total where nothing else is known."""
        known = [value for value in (self.available or self.total, self.limit) if value]
        return min(known, default=0)

    def words(self) -> str:
        """For people and the receipt."""
        unified = ", which the GPU shares" if self.unified else ""
        limit = f", limited to {self.limit / 1e9:.1f} GB" if self.limit else ""
        return f"{self.cores or '?'} cores, {self.available / 1e9:.1f} GB available{unified}{limit}"


def jobs_for(cores: int, memory: int, memory_per_job: int) -> int:
    """One job a core, as far as the memory reaches; one where it doesn't reach.  Unknown (0) sets no bound.

    :param memory_per_job: bytes that one job takes, all threads of its compiler together.
    """
    bounds = [cores] if cores else []
    if memory and memory_per_job:
        bounds.append(memory // memory_per_job)
    return max(1, min(bounds, default=1))


def jobs_in(place: Place, planned: int, memory_per_job: int) -> int:
    """What a plan counted, and no more than the place bears now.

    :param planned: the plan's jobs; what a person asked for by hand isn't passed through here.
    """
    return min(planned, jobs_for(place.cores or planned, place.memory, memory_per_job))


def measure(room: Room) -> Place:
    """What the room's machine has now; a room that says nothing sets no bound."""
    lines: list[str] = []
    room.run(Step("measure", ("sh", "-c", _SCRIPT)), lines.append)
    return place_of(lines)


def place_of(lines: list[str]) -> Place:
    """From the script's lines; what can't be read counts as not said."""
    said: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(" ")
        said.setdefault(name, []).append(value.strip())

    def number(name: str) -> int:
        values = [int(value) for value in said.get(name, ()) if value.isascii() and value.isdigit()]
        return min((value for value in values if value < _NO_LIMIT), default=0)

    cores, quota, period = number("cores"), number("quota"), number("period")
    if quota and period:
        cores = min(cores or quota, max(1, quota // period))
    boards = " ".join(said.get("board", ()))
    # The kernel's kB are 1024 bytes; the script can only append zeros.
    total, available = (number(name) // 1000 * 1024 for name in ("total", "available"))
    return Place(cores, total, available, number("limit"), any(word in boards for word in _UNIFIED))
