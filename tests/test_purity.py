"""The kernel knows no server, clock, randomness, file, network or environment."""

from __future__ import annotations

import ast
import dis
import subprocess
import sys

from pathlib import Path

import pytest

import ipistate


ROOT = Path(ipistate.__file__).parent
SHELL = {
    "server",
    "cli",
    "demo",
    "testing",
    "coordination",
    "generate",
    "policies",
    "report",
    "rollouts",
    "__main__.py",
}
"""Packages above the kernel."""
FILES = {"checkpoint/directory.py", "builtin/__init__.py"}
"""Modules whose purpose is to read or write files."""
ALLOWED = {
    *("__future__", "collections", "functools", "hashlib", "inspect", "itertools"),
    *("json", "math", "re", "statistics", "types", "typing", "enum", "contextlib"),
    *("decimal", "unicodedata"),
    *("bisect", "operator"),
    *("attrs", "cattrs", "orjson", "ipistate"),
    *("jsonschema", "referencing"),  # of strict.py, which nothing of the kernel imports
}
"""All that the kernel may import."""
FORBIDDEN_NAMES = {
    *("open", "input", "print", "exec", "eval", "compile", "__import__", "breakpoint"),
    *(".environ", ".getenv", ".urandom", ".uuid4", ".monotonic", ".perf_counter"),
    *(".time_ns", ".today", ".sleep", ".socket", ".token_hex", ".randint", ".shuffle"),
    *(".read_text", ".read_bytes", ".write_text", ".write_bytes", ".fsync", ".mkdir"),
}
"""Built-in functions, and attributes of modules and paths, that reach outside."""


def kernel():
    """Yield the kernel's modules by their path inside the package."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.partition("/")[0] not in SHELL and name not in FILES:
            yield name


KERNEL = [*kernel()]


def imports(tree):
    """Yield the top-level name of everything that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def names(code):
    """Yield every global and every attribute that a module's bytecode names."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
            yield instruction.argval
        elif instruction.opname in {"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"}:
            yield f".{instruction.argval}"
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from names(constant)


def test_there_is_a_kernel():
    """The walk finds the modules that it is about."""
    found = {*KERNEL}

    assert {"values.py", "codec.py", "tools/legal.py", "checkpoint/machine.py"} <= found
    assert not {"server/shell.py", "checkpoint/directory.py"} & found


@pytest.mark.parametrize("name", KERNEL)
def test_imports(name):
    """A kernel module imports only what is on the list."""
    tree = ast.parse((ROOT / name).read_text("utf-8"))
    found = {module.partition(".")[0] for module in imports(tree)}

    assert set() == found - ALLOWED


@pytest.mark.parametrize("name", KERNEL)
def test_no_way_to_the_shell(name):
    """A kernel module imports none of the packages and modules above it."""
    tree = ast.parse((ROOT / name).read_text("utf-8"))
    above = {f"ipistate.{one}" for one in (*SHELL, "checkpoint.directory", "builtin")}

    assert [] == [
        module
        for module in imports(tree)
        if any(module == one or module.startswith(f"{one}.") for one in above)
    ]


@pytest.mark.parametrize("name", KERNEL)
def test_bytecode(name):
    """The bytecode names no clock, no randomness, no file and no environment."""
    code = compile((ROOT / name).read_text("utf-8"), name, "exec")

    assert set() == {*names(code)} & FORBIDDEN_NAMES


CHILD = """
import sys
before = set(sys.modules)
import ipistate
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""

HEAVY = {
    *("starlette", "uvicorn", "itsdangerous", "httpx", "click", "rich", "hypothesis"),
    *("jsonschema", "referencing"),
    *("asyncio", "socket", "ssl", "http", "sqlite3", "multiprocessing", "subprocess"),
}


def loaded(code):
    """Return the modules that a fresh interpreter loads when it runs a program."""
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            f"import sys; sys.path[:0] = {sys.path!r}\n{code}",
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    return {*done.stdout.split()}


def test_importing_the_kernel_is_light():
    """Importing the package loads no server, no command line and no network module."""
    found = loaded(CHILD)

    assert "ipistate" in found
    assert {"attr", "cattrs", "orjson"} <= found
    assert set() == found & HEAVY
