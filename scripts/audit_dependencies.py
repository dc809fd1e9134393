"""Audit the packages that requirements.lock names: known vulnerabilities (pip-audit asks PyPI) and licences.

`python -m scripts.audit_dependencies` fails for a vulnerability that IGNORED does not list, and for a licence that
ALLOWED does not list. Without a connection to PyPI it prints that vulnerabilities were NOT checked, and does not fail:
licences are always checked, from the metadata of the installed packages. `--list` prints the licence of each package.
"""

import json
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping, Sequence
from email.message import Message
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements.lock"
COMMAND = (sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json")
UNREACHABLE = re.compile(r"requests\.exceptions|Could not connect|not redirecting|blocking this service|ServiceError")
NOT_CHECKED = "VULNERABILITIES NOT CHECKED"
IGNORED: dict[str, str] = {}  # id of a vulnerability that was reviewed: why it does not concern KVScope

PERMISSIVE = "0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 CC0-1.0 CNRI-Python ISC MIT MIT-0 MIT-CMU PSF-2.0 Zlib"
WEAK = "MPL-2.0 LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only LGPL-3.0-or-later"  # imported or linked, not changed
ALLOWED = {*PERMISSIVE.split(), *WEAK.split(), "Apache-2.0 WITH LLVM-exception"}
SPELLINGS = {  # of classifiers and of the older field, which has any text
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",  # or with two clauses, which makes no difference here
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
REVIEWED = {  # package and what its metadata says: what the licence files in it say
    ("axe-playwright-python", ""): "MIT AND MPL-2.0",  # the second is axe-core's
    ("pypdfium2", "BSD-3-Clause, Apache-2.0, dependency licenses"): "BSD-3-Clause AND Apache-2.0",
    ("rouge", "LICENCE.txt"): "Apache-2.0",
}


def locked_names(lock: str) -> list[str]:
    """Return the packages that a lock file names."""
    return [line.partition("==")[0] for line in lock.splitlines() if line and not line.startswith("#")]


def licence_of(name: str, package: Message) -> str:
    """Return the SPDX expression of a package's licence, or else what its metadata says; '' if that is nothing."""
    if expression := package.get("License-Expression"):
        return str(expression)
    classifiers = [each.split(" :: ") for each in package.get_all("Classifier", [])]
    names = [parts[-1] for parts in classifiers if parts[0] == "License" and parts[1:] != ["OSI Approved"]]
    names = names or [str(package.get("License", "")).strip().partition("\n")[0]]
    licence = " AND ".join(SPELLINGS.get(each, each) for each in names)
    return REVIEWED.get((name, licence), licence)


def is_allowed(licence: str) -> bool:
    """Return whether all licences that an expression names are allowed, also those of which one may be chosen."""
    names = [each.strip() for each in re.split(r"\bAND\b|\bOR\b|[()]", licence)]
    return bool(licence) and all(each in ALLOWED for each in names if each)


def find_vulnerabilities(answer: Mapping[str, Any], ignored: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return a line for each vulnerability that pip-audit reports and is not ignored, and what it did not check."""
    found, unchecked = [], []
    for package in answer["dependencies"]:
        if "vulns" not in package:
            unchecked.append(package["name"])
        for each in package.get("vulns", []):
            if not {each["id"], *each["aliases"]} & set(ignored):
                fixed = f", fixed in {', '.join(each['fix_versions'])}" if each["fix_versions"] else ", not fixed yet"
                found.append(f"{package['name']} {package['version']}: {each['id']}{fixed}.")
    return found, unchecked


def check_vulnerabilities(names: Sequence[str], returncode: int, output: str, errors: str) -> tuple[bool, str]:
    """Return whether the audit passes, and the report, given what pip-audit has printed about these packages."""
    try:
        answer = json.loads(output)
    except ValueError:
        reason = errors.strip().rpartition("\n")[2][:300]
        if returncode and UNREACHABLE.search(errors):
            return True, f"{NOT_CHECKED}: PyPI cannot be reached ({reason})."
        return False, f"pip-audit failed: {reason}"
    found, unchecked = find_vulnerabilities(answer, IGNORED)
    unchecked += sorted(set(map(_normalized, names)) - {_normalized(each["name"]) for each in answer["dependencies"]})
    if len(unchecked) >= len(names):
        return True, f"{NOT_CHECKED}: PyPI did not know any of the {len(names)} packages."
    lines = [f"Vulnerable: {line}" for line in found]
    if unchecked:
        lines.append(f"{NOT_CHECKED} of {len(unchecked)} packages that PyPI does not know: {', '.join(unchecked)}.")
    checked = f"Vulnerabilities: {len(names) - len(unchecked)} packages checked, {len(found) or 'none'} known."
    return not found, "\n".join([*lines, checked])


def check_licences(licences: Mapping[str, str | None]) -> tuple[bool, str]:
    """Return whether the audit passes, and the report; a package that is not installed has the licence None."""
    lines = [
        f"{name} is not installed: its licence is unknown."
        if licence is None
        else f"{name} has a licence that is unknown or not allowed: {licence or '(none)'}."
        for name, licence in licences.items()
        if licence is None or not is_allowed(licence)
    ]
    counts = ", ".join(f"{count} {licence}" for licence, count in Counter(licences.values()).most_common())
    return not lines, "\n".join([*lines, f"Licences: {len(licences)} packages, {len(lines)} not allowed ({counts})."])


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed_licence(name: str) -> str | None:
    try:
        return licence_of(name, metadata(name))  # type: ignore[arg-type]
    except PackageNotFoundError:
        return None


def main() -> None:
    """Run both audits; exit with status 1 if one fails."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="only print the licence of each package")
    arguments = parser.parse_args()
    names = locked_names(LOCK.read_text(encoding="utf-8"))
    licences = {name: _installed_licence(name) for name in names}
    if arguments.list:
        print("\n".join(f"{name}: {licence or 'unknown'}" for name, licence in licences.items()))
        return
    audit = subprocess.run([*COMMAND, "-r", LOCK], capture_output=True, text=True, check=False)
    results = [check_licences(licences), check_vulnerabilities(names, audit.returncode, audit.stdout, audit.stderr)]
    print("\n".join(report for _, report in results))
    sys.exit(not all(passed for passed, _ in results))


if __name__ == "__main__":
    main()
