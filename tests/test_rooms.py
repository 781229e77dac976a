"""The house: which rooms are pure, how rooms are entered, and what names mean."""

from __future__ import annotations

import ast
import dis
import importlib
import subprocess
import sys
import tomllib

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

import ipistate


ROOT = Path(ipistate.__file__).parent
PROJECT = tomllib.loads(
    (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8")
)
PURE = PROJECT["tool"]["ipistate"]["pure_rooms"]
"""The rooms without a way out; this is the one list of them."""
LAYERS = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
ROOMS = [room for layer in LAYERS for room in layer.split(" | ")]
ALLOWED = {
    *("__future__", "collections", "functools", "hashlib", "inspect", "itertools"),
    *("json", "math", "re", "statistics", "types", "typing", "enum", "contextlib"),
    *("decimal", "html", "unicodedata"),
    *("bisect", "operator", "struct"),
    *("attrs", "cattrs", "orjson", "ipistate"),
    *("jsonschema", "referencing"),  # of strict.py, which nothing of the kernel imports
}
"""All that the kernel may import."""
SIDE_DOORS = {"ipistate.tools.strict"}
"""Modules of an extra, which a front door must not load."""
FORBIDDEN_NAMES = {
    *("open", "input", "print", "exec", "eval", "compile", "__import__", "breakpoint"),
    *(".environ", ".getenv", ".urandom", ".uuid4", ".monotonic", ".perf_counter"),
    *(".time_ns", ".today", ".sleep", ".socket", ".token_hex", ".randint", ".shuffle"),
    *(".read_text", ".read_bytes", ".write_text", ".write_bytes", ".fsync", ".mkdir"),
}
"""Built-in functions, and attributes of modules and paths, that reach outside."""


def room_of(name: str) -> str:
    """Return the room of a module that is named by its path inside the package."""
    return name.partition("/")[0].removesuffix(".py")


MODULES = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))]
PURE_MODULES = [name for name in MODULES if room_of(name) in PURE]


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield the name of everything that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def names(code: CodeType) -> Iterator[str]:
    """Yield every global and every attribute that a module's bytecode names."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
            yield instruction.argval
        elif instruction.opname in {"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"}:
            yield f".{instruction.argval}"
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from names(constant)


def test_every_pure_room_is_walked() -> None:
    """The walk finds modules in each pure room."""
    assert {*PURE} == {room_of(name) for name in PURE_MODULES}


@pytest.mark.parametrize("name", PURE_MODULES)
def test_imports(name: str) -> None:
    """A pure module imports only what is on the list, and only pure rooms."""
    found = [*imports(ast.parse((ROOT / name).read_text("utf-8")))]
    rooms = {one.split(".")[1] for one in found if one.startswith("ipistate.")}

    assert set() == {one.partition(".")[0] for one in found} - ALLOWED
    assert set() == rooms - {*PURE}


@pytest.mark.parametrize("name", PURE_MODULES)
def test_bytecode(name: str) -> None:
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
    *("starlette", "uvicorn", "itsdangerous", "aiohttp", "yarl", "click", "rich"),
    *("hypothesis", "httpx"),
    *("jsonschema", "referencing"),
    *("asyncio", "socket", "ssl", "http", "sqlite3", "multiprocessing", "subprocess"),
}


def loaded(code: str) -> set[str]:
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


def test_importing_the_kernel_is_light() -> None:
    """Importing the package loads no server, no command line and no network module."""
    found = loaded(CHILD)

    assert "ipistate" in found
    assert {"attr", "cattrs", "orjson"} <= found
    assert set() == found & HEAVY


def crossings(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what a module imports from other rooms: the module, and the names."""
    for node in ast.walk(ast.parse((ROOT / name).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(
            "ipistate."
        ):
            assert node.module is not None
            room = node.module.split(".")[1]
            if room not in {room_of(name), "errors"}:
                yield node.module, [alias.name for alias in node.names]


@pytest.mark.parametrize("name", MODULES)
def test_other_rooms_are_entered_by_the_front_door(name: str) -> None:
    """A module imports from another room only what its door offers."""
    found = [one for one in crossings(name) if one[0] not in SIDE_DOORS]
    offered = {room: {*importlib.import_module(room).__all__} for room, _ in found}

    assert [] == [room for room, _ in found if room.count(".") > 1]
    assert [] == [
        (room, {*names} - offered[room])
        for room, names in found
        if {*names} - offered[room]
    ]


def test_every_room_has_a_layer() -> None:
    """The layers name each room of the tree once."""
    assert sorted(ROOMS) == sorted(
        {room_of(name) for name in MODULES} - {"__init__", "__main__"}
    )


def test_a_class_name_means_one_thing() -> None:
    """No two public classes of the tree have the same name."""
    trees = [ast.parse((ROOT / name).read_text("utf-8")) for name in MODULES]
    names = Counter(
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert [] == [name for name, count in names.items() if count > 1]
