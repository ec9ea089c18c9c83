"""What ``import interlock`` costs, and what it loads."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

import msgspec

EDGES = frozenset(
    {
        "aiohttp",
        "anthropic",
        "asyncpg",
        "boto3",
        "botocore",
        "cohere",
        "fastapi",
        "google",
        "groq",
        "httpx",
        "httpx2",
        "jsonschema",
        "mcp",
        "mistralai",
        "numpy",
        "openai",
        "opentelemetry",
        "pandas",
        "psycopg",
        "pydantic",
        "pymongo",
        "redis",
        "requests",
        "rich",
        "sqlalchemy",
        "sqlite3",
        "starlette",
        "temporalio",
        "tiktoken",
        "torch",
        "transformers",
        "typer",
        "urllib3",
        "uvicorn",
        "websockets",
        "xllamacpp",
    }
)
"""Packages of providers, servers, databases, tracers and command lines; none of them may come with the runtime."""

_SCRIPT = """
import json, sys, time
known = set(sys.modules)
begin = time.perf_counter()
import interlock
taken = time.perf_counter() - begin
print(json.dumps({"ms": taken * 1e3, "modules": sorted(set(sys.modules) - known)}))
"""


def import_cost(times: int = 9) -> dict[str, Any]:
    """Import interlock in fresh processes.

    Returns:
        ``ms`` with ``ms_min`` and ``ms_max``; ``modules``, their number; ``packages``, the top-level ones outside the
        standard library; ``edges``, those that must not be there.
    """
    runs = [_import_once() for _ in range(times)]
    milliseconds = [one["ms"] for one in runs]
    modules: list[str] = runs[-1]["modules"]
    packages = {name.partition(".")[0] for name in modules}
    foreign = sorted(name for name in packages - sys.stdlib_module_names if not name.startswith("_"))
    return {
        "ms": round(statistics.median(milliseconds), 1),
        "ms_min": round(min(milliseconds), 1),
        "ms_max": round(max(milliseconds), 1),
        "modules": len(modules),
        "packages": foreign,
        "edges": sorted(packages & EDGES),
    }


def as_text(cost: dict[str, Any]) -> str:
    """The cost in four lines."""
    return "\n".join(
        [
            f"import interlock: {cost['ms']} ms ({cost['ms_min']}–{cost['ms_max']})",
            f"modules loaded: {cost['modules']}",
            f"packages outside the standard library: {', '.join(cost['packages'])}",
            f"packages that must not be loaded: {', '.join(cost['edges']) or 'none'}",
        ]
    )


def _import_once() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found
