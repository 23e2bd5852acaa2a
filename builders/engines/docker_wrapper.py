"""The shell that runs each step in a container, and what it says when the step has ended."""

from __future__ import annotations

from qualify.errors import UnavailableError

# Checks what was put into the room since the last step, runs a step, and says at its end how much memory its control
# group took at most and how many of its processes were killed for memory: control groups of version 2, then of 1.
# The mark in front of those words is the room's own, so that no output of a step passes for them.
WRAPPER = r"""
mark=$1; sums=$2; shift 2
if [ -n "$sums" ] && ! damaged=$(sha256sum --check --quiet --strict "$sums" 2>&1); then
    printf '\036%s damaged %s\n' "$mark" "$(echo "$damaged" | head -n 1)"; exit 1
fi
"$@"; code=$?
peak=0; kills=0
for file in /sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory/memory.max_usage_in_bytes; do
    if [ -r $file ]; then read -r peak <$file; break; fi
done
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    if [ -r $file ]; then while read -r name value; do [ "$name" = oom_kill ] && kills=$value; done <$file; break; fi
done
printf '\036%s ended %s %s\n' "$mark" "$peak" "$kills"
exit $code
"""


class End:
    """What the wrapper of a step says after it."""

    def __init__(self, mark: str) -> None:
        self.seen = False  # the wrapper outlived its command: whoever ended that did it inside the container
        self.peak = 0
        self.kills = 0
        self._mark = f"\x1e{mark} "
        self._damaged = ""

    def heard(self, line: str) -> tuple[str, bool]:
        """The part of a line that the step printed, and whether the wrapper's words end it."""
        text, said, words = line.partition(self._mark)
        if not said:
            return line, False
        kind, _, rest = words.partition(" ")
        self.seen = True
        if kind == "damaged":
            self._damaged = rest
        else:
            peak, _, kills = rest.partition(" ")
            self.peak, self.kills = (int(text) if text.strip().isdigit() else 0 for text in (peak, kills))
        return text, True

    def demand_whole(self, step: str) -> None:
        """:raises UnavailableError: what was put into the room did not arrive as it was."""
        if self._damaged:
            raise UnavailableError(
                f"what was put into the room is not what was sent: {self._damaged}",
                where=f"docker, before the step {step}",
                action="run again; the connection to the engine, or its disk, changes what it carries",
            )
