"""The audit of dependencies: what fails it, what does not, and that an audit that did not happen is no success."""

import json
from email.message import Message

import pytest

from scripts import audit_dependencies as audit

UNREACHABLE = [
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='example.org', port=443): Max retries exceeded",
    "ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed\n"
    "ERROR:pip_audit._cli:Tip: your network may be blocking this service. Try another service with `-s SERVICE`",
]


def package(**fields):
    """Return the metadata of a package; a list is a field that is repeated."""
    message = Message()
    for key, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            message[key.replace("_", "-")] = value
    return message


def answer(*packages):
    return json.dumps({"dependencies": packages, "fixes": []})


def known(name, *vulnerabilities):
    return {"name": name, "version": "1.0", "vulns": list(vulnerabilities)}


def vulnerability(number, aliases=(), fixed=()):
    return {"id": number, "aliases": list(aliases), "fix_versions": list(fixed), "description": "Bad."}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (package(License_Expression="MIT AND PSF-2.0", License="GPL"), "MIT AND PSF-2.0"),
        (package(Classifier=["License :: OSI Approved :: MIT License", "Topic :: Games"], License="odd"), "MIT"),
        (package(Classifier=["License :: OSI Approved"], License="Apache 2.0\n\nVersion 2.0"), "Apache-2.0"),
        (package(License="Our own"), "Our own"),
        (package(), ""),
    ],
    ids=["expression", "classifier", "first line", "unknown", "none"],
)
def test_the_licence_is_that_of_the_most_exact_field(metadata, expected):
    assert audit.licence_of("ferry", metadata) == expected


def test_a_reviewed_licence_holds_for_what_the_metadata_said_then():
    assert audit.licence_of("rouge", package(License="LICENCE.txt")) == "Apache-2.0"
    assert audit.licence_of("rouge", package(License="GPL-3.0")) == "GPL-3.0"


@pytest.mark.parametrize(
    "licence", ["MIT", "0BSD", "MPL-2.0 AND (Apache-2.0 OR MIT)", "LGPL-2.1-or-later", "Apache-2.0 WITH LLVM-exception"]
)
def test_permissive_and_weak_licences_are_allowed(licence):
    assert audit.is_allowed(licence)


@pytest.mark.parametrize(
    "licence",
    [
        "",
        "GPL-3.0-only",
        "AGPL-3.0-or-later",
        "MIT AND GPL-2.0-only",
        "MIT OR GPL-3.0-only",
        "Our own",
        "GPL-2.0 WITH x",
        "GNU General Public License v3 (GPLv3)",
        "MIT AND GNU Affero General Public License v3",
        "OTHER-MIT",
    ],
)
def test_unknown_and_copyleft_licences_are_not(licence):
    assert not audit.is_allowed(licence)


def test_a_forbidden_unknown_or_missing_licence_fails_with_the_name():
    passed, report = audit.check_licences({"ferry": "MIT", "tern": "AGPL-3.0-only", "gull": "", "auk": None})
    assert not passed
    lines = report.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["tern", "gull", "auk"]
    assert "AGPL-3.0-only" in lines[0] and "not installed" in lines[2]
    assert audit.check_licences({"ferry": "MIT"})[0]


def test_a_known_vulnerability_fails_with_package_id_and_fix():
    output = answer(known("ferry", vulnerability("PYSEC-1", fixed=["1.1"])), known("tern"))
    passed, report = audit.check_vulnerabilities(["ferry", "tern"], 1, output, "")
    assert not passed
    assert "ferry 1.0: PYSEC-1, fixed in 1.1." in report
    assert audit.NOT_CHECKED not in report


def test_an_ignored_vulnerability_passes_by_id_or_alias_and_others_still_fail(monkeypatch):
    monkeypatch.setitem(audit.IGNORED, "CVE-1", "Only on Windows.")
    by_alias = known("ferry", vulnerability("PYSEC-1", aliases=["CVE-1"]))
    assert audit.check_vulnerabilities(["ferry"], 1, answer(by_alias), "")[0]
    other = known("ferry", vulnerability("PYSEC-1", aliases=["CVE-1"]), vulnerability("PYSEC-2"))
    passed, report = audit.check_vulnerabilities(["ferry"], 1, answer(other), "")
    assert not passed and "PYSEC-2" in report and "PYSEC-1" not in report


@pytest.mark.parametrize("errors", UNREACHABLE)
def test_without_a_connection_it_passes_and_says_that_nothing_was_checked(errors):
    passed, report = audit.check_vulnerabilities(["ferry"], 1, "", errors)
    assert passed and report.startswith(audit.NOT_CHECKED) and "known" not in report


def test_an_index_that_knows_no_package_has_checked_nothing():
    """pip-audit reports success in this case."""
    skipped = [{"name": name, "skip_reason": "not found"} for name in ("ferry", "tern")]
    passed, report = audit.check_vulnerabilities(
        ["ferry", "tern"], 0, answer(*skipped), "No known vulnerabilities found"
    )
    assert passed and report.startswith(audit.NOT_CHECKED) and "known." not in report


def test_packages_that_were_not_checked_are_named():
    output = answer(known("ferry"), {"name": "tern", "skip_reason": "not found"})
    passed, report = audit.check_vulnerabilities(["Ferry", "tern", "sea.gull"], 0, output, "")
    assert passed and f"{audit.NOT_CHECKED} of 2 packages" in report and "tern, sea-gull" in report
    assert "1 packages checked" in report


def test_another_error_of_pip_audit_fails():
    passed, report = audit.check_vulnerabilities(["ferry"], 2, "", "error: unrecognized arguments: --format")
    assert not passed and "unrecognized arguments" in report


def test_the_lock_names_packages_and_pip_audit_itself():
    names = audit.locked_names(audit.LOCK.read_text(encoding="utf-8"))
    assert {"torch", "pdfminer.six", "pip_audit"} <= set(names)
    assert audit.locked_names("# note\na==1\n\nb.c==2.0\n") == ["a", "b.c"]


def test_every_ignored_vulnerability_has_a_reason():
    assert all(reason.strip() for reason in audit.IGNORED.values())
