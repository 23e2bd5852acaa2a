"""Write qualify/data/manylinux.json anew from the policies of the installed auditwheel.

    python tools/refresh_manylinux.py

auditwheel keeps its policies as data (`manylinux-policy.json`): the symbol versions, libraries and forbidden symbols of
each manylinux tag, per machine.  They are copied whole but for the policy `linux`, which promises nothing, and stamped
with auditwheel's version.  Layout: one line per machine of each policy, so that a refresh reads well as a diff.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata, resources
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "qualify" / "data" / "manylinux.json"
KEYS = {"name", "aliases", "priority", "symbol_versions", "lib_whitelist", "blacklist"}


def installed() -> tuple[str, list[dict[str, Any]]]:
    """auditwheel's version, and its policies without `linux`, the oldest first.

    :raises SystemExit: auditwheel is not installed, or its policies have other keys than those that are known here.
    """
    try:
        version = metadata.version("auditwheel")
        text = (resources.files("auditwheel.policy") / "manylinux-policy.json").read_text(encoding="utf-8")
    except (ImportError, OSError) as error:
        raise SystemExit(f"auditwheel's policies are not here: {error}; install the group `tests`") from error
    policies = [policy for policy in json.loads(text) if policy["name"] != "linux"]
    for policy in policies:
        if set(policy) != KEYS:
            raise SystemExit(
                f"auditwheel {version}: {policy['name']} has the keys {sorted(policy)}; read them here first"
            )
    return version, sorted(policies, key=lambda policy: -policy["priority"])


def render(version: str, policies: Sequence[Mapping[str, Any]]) -> str:
    """The text of the data file."""
    blocks = []
    for policy in policies:
        machines = ",\n".join(
            f"   {json.dumps(machine)}: {json.dumps(families)}"
            for machine, families in policy["symbol_versions"].items()
        )
        lines = [f"  {json.dumps(key)}: {json.dumps(policy[key])}" for key in ("name", "aliases", "priority")]
        lines += [f"  {json.dumps(key)}: {json.dumps(policy[key])}" for key in ("lib_whitelist", "blacklist")]
        lines.append(f'  "symbol_versions": {{\n{machines}\n  }}')
        blocks.append(" {\n" + ",\n".join(lines) + "\n }")
    return f'{{"auditwheel": {json.dumps(version)}, "policies": [\n' + ",\n".join(blocks) + "\n]}\n"


def main() -> None:
    version, policies = installed()
    text = render(version, policies)
    same = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text
    TARGET.write_text(text, encoding="utf-8")
    said = "as it was" if same else "written anew"
    sys.stderr.write(f"{TARGET.name}: auditwheel {version}, {policies[0]['name']} to {policies[-1]['name']}, {said}\n")


if __name__ == "__main__":
    main()
