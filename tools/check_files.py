# SPDX-License-Identifier: Apache-2.0
"""Checks what no linter does: hand-written files are short and say their licence, test files have names of their own.

Called by `make files`.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

LIMIT, TEST_LIMIT = 500, 800
LICENCE = "SPDX-License-Identifier: Apache-2.0"
# Generated (marked so in .gitattributes and checked by `make fresh`), or recorded by somebody else.
EXEMPT = ("/_generated/", "tests/golden/", "crds/")


def complaints(path: str, text: str) -> list[str]:
    """What is wrong with one file."""
    lines = text.splitlines()
    limit = TEST_LIMIT if path.startswith("tests/") else LIMIT
    found = []
    if len(lines) > limit:
        found.append(f"{path}: {len(lines)} lines; split it, at most {limit} are allowed")
    # A script's first line is for the kernel.
    if LICENCE not in "\n".join(lines[:2]):
        found.append(f"{path}: does not begin with # {LICENCE}")
    return found


def namesakes(paths: list[str]) -> list[str]:
    """Test files of one name in two folders, which pytest refuses to collect together."""
    tests = [path for path in paths if path.startswith("tests/") and Path(path).name.startswith("test_")]
    names = Counter(Path(path).name for path in tests)
    return [f"{path}: another folder has a test file of this name" for path in tests if names[Path(path).name] > 1]


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()
    checked = [path for path in listed if Path(path).is_file() and not any(part in path for part in EXEMPT)]
    found = [line for path in checked for line in complaints(path, Path(path).read_text())]
    found += namesakes(checked)
    well = f"{len(checked)} files are short enough, say their licence and have names of their own"
    print("\n".join(found) if found else well)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
