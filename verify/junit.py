"""junit.xml from a run record: one test case per (label, regime); a case fails when its verdict is not the declared one."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

from verify.claim import verdict as v
from verify.merge import met

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


def junit(record: dict[str, Any]) -> str:
    """The record as JUnit XML. Where nothing is declared, only REFUTED, DISPROVED, NUMERIC and ERROR fail."""
    cases = [_case(row) for row in record["verdicts"]]
    count = {tag: sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error", "skipped")}
    seconds = str(record["run"].get("timing", {}).get("wall_s", 0))
    totals = {"tests": str(len(cases)), "failures": str(count["failure"]), "errors": str(count["error"]), "skipped": str(count["skipped"])}
    suite = ET.Element("testsuite", {"name": "lemma", **totals, "time": seconds})
    suite.extend(cases)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(row: dict[str, Any]) -> ET.Element:
    name = row["id"] if row["regime"] is None else f"{row['id']}-{row['regime']}"
    case = ET.Element("testcase", {"classname": "lemma", "name": _plain(f"lemma[{name}]")})
    text = f"{row['verdict']}: {row['violations']} violations in {row['n']} trials. {row['reason']}".strip()
    if row["expected"]:
        text += f" Declared: {row['expected']['verdict']}. {row['expected']['reason']}"
    tag = _tag(row)
    if tag:
        ET.SubElement(case, tag, {"message": _plain(text)[:2000], "type": row["verdict"]})
    return case


def _tag(row: dict[str, Any]) -> str:
    if row["verdict"] == v.NOT_RUN and met(row) is not False:
        return "skipped"
    if row["verdict"] == v.ERROR:
        return "error"
    declared = met(row)
    return "failure" if declared is False or (declared is None and row["verdict"] in (*v.FAILS, v.NUMERIC)) else ""


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
