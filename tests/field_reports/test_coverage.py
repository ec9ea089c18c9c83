"""No case without a test, and no test without its case."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent


def reports_in(text: str) -> set[str]:
    return set(re.findall(r"FR-\d{3}", text))


def reports_with_a_test() -> set[str]:
    found: set[str] = set()
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                found |= reports_in(ast.get_docstring(node) or "")
    return found


def test_every_case_has_a_test_and_every_test_of_a_report_its_case() -> None:
    assert {path.stem for path in (HERE / "cases").glob("*.json")} == reports_with_a_test()


def test_what_waits_in_part_is_tested_in_part() -> None:
    rows = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| FR-")]
    for row in rows:
        is_tested = bool(reports_in(row.split("|")[1]) & reports_with_a_test())
        assert is_tested is row.rstrip(" |").endswith(("is tested", "are tested")), row
