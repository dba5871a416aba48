"""A hash of the code that computes a method's codes, which tells runs of older code from runs of the present code.

The hash covers the module that defines the method and every module of hashlearn that it imports, directly or through
other modules, also inside functions. Comments, docstrings and layout do not count; C sources count as they are. The
hash leaves out modules that only read files or write messages, and two imports of ``fitting/base.py`` that no fit uses.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hashlearn
from hashlearn.bench.store import BenchRun
from hashlearn.hashers import find_method, method_names

PACKAGE = "hashlearn"
# These modules read, write, check or describe; no bit of a code depends on them.
ROOMS_WITHOUT_CODES = frozenset(
    {"constraints", "deprecation", "filekinds", "files", "messages", "methodinfo", "parameters"}
    | {"progress", "timing", "typing", "wholefile"}
)
# ``score`` needs the metrics and a message names the methods; neither is part of a fit.
UNUSED_BY_FITS = frozenset(
    {("hashlearn.fitting.base", "hashlearn.metrics"), ("hashlearn.fitting.base", "hashlearn.hashers")}
)
_HASH_LETTERS = 16


@dataclass(frozen=True)
class Module:
    """The facts of a module that the hash needs: its normalized text, and the modules of hashlearn that it imports."""

    text: str
    imports: tuple[str, ...] = ()


def method_code(name: str) -> str:
    """The hash of the method with that name on the command line."""
    method: Any = find_method(name)
    return class_code(method)


@cache
def class_code(method: Any) -> str:
    """The hash of a method's class, which may be defined outside hashlearn."""
    own = {method.__module__: _defining_module(method)}
    # Base classes from other libraries are left out: a run records the versions of those libraries.
    bases = {base.__module__ for base in method.__mro__ if base.__module__.startswith(f"{PACKAGE}.")}
    return _digest(closure(own | {name: read_module(name) for name in bases}))


@cache
def module_code(name: str) -> str:
    """The hash of a module of hashlearn and of the modules that it imports."""
    return _digest(closure({name: read_module(name)}))


def is_stale(run: BenchRun) -> bool:
    """Whether a run was made by other code than its method has now, or by a method that no longer exists."""
    method = run.definition.method
    return method not in method_names() or run.definition.code != method_code(method)


def stale_remark(runs: Sequence[BenchRun]) -> str | None:
    """A sentence about the runs of older code that were not repeated with the present code, or None."""
    done = [run for run in runs if run.error is None]
    present = {run.definition.without_code().key for run in done if not is_stale(run)}
    # Several older runs with one definition are counted once, because one new run replaces them.
    older = {key: run for run in done if (key := run.definition.without_code().key) not in present}
    if not older:
        return None
    labels = ", ".join(dict.fromkeys(run.definition.label for run in older.values()))
    return (
        f"{len(older)} of {len(present) + len(older)} runs were made by older code of their methods ({labels}); "
        "'hashlearn bench run' makes them again."
    )


def closure(modules: dict[str, Module]) -> dict[str, Module]:
    """The given modules and all modules of hashlearn that they import, by name."""
    found, waiting = dict(modules), list(modules)
    while waiting:
        name = waiting.pop()
        for other in found[name].imports:
            if other in found or (name, other) in UNUSED_BY_FITS or other.split(".")[1] in ROOMS_WITHOUT_CODES:
                continue
            found[other] = read_module(other)
            waiting.append(other)
    return found


@cache
def read_module(name: str) -> Module:
    """Read a module of hashlearn. The text of a compiled module is its C source with the headers beside it."""
    path = _file_of(name)
    if path is None:
        raise ValueError(f"There is no module {name}.")
    if path.suffix == ".c":
        return Module("".join(read_text(part) for part in (path, *sorted(path.parent.glob("*.h")))))
    return read_python(read_text(path))


def read_python(source: str) -> Module:
    """Make a module from its Python source."""
    return Module(normalized(source), tuple(dict.fromkeys(_imports(source))))


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def normalized(source: str) -> str:
    """Python source without comments, docstrings and layout, none of which changes what the code does.

    >>> normalized("def f(x):  # doubles\\n    '''Twice x.'''\\n    return 2 * x")
    'def f ( x ) : \\n > return 2 * x \\n <'
    """
    words: list[str] = []
    opened: list[tuple[int, int]] = []
    # Before Python 3.12 an f-string is one token. Later versions split it, so its parts are joined again here: the hash
    # must not depend on the version of Python.
    f_start, f_end = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1)
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == f_start:
            opened.append(token.start)
        elif token.type == f_end:
            start = opened.pop()
            if not opened:
                words.append(_between(lines, start, token.end))
        elif opened or token.type in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER):
            continue
        elif token.type == tokenize.NEWLINE:
            # A line that consists of a string only is a docstring.
            if words[-1].endswith(("'", '"')) and (len(words) == 1 or words[-2] in ("\n", ">", "<")):
                words.pop()
            else:
                words.append("\n")
        else:
            words.append({tokenize.INDENT: ">", tokenize.DEDENT: "<"}.get(token.type, token.string))
    return " ".join(words)


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """The source from one (line, column) to another. Line numbers start at 1."""
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]]
    return lines[start[0] - 1][start[1] :] + "".join(lines[start[0] : end[0] - 1]) + lines[end[0] - 1][: end[1]]


def _imports(source: str) -> Iterator[str]:
    """Names of the modules of hashlearn that a source imports, also inside functions."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if _file_of(name) is not None else node.module for name in inside]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "compiled_part":
            names = [ast.literal_eval(node.args[0])]
        yield from (name for name in names if name.startswith(f"{PACKAGE}."))


def _digest(modules: dict[str, Module]) -> str:
    text = "\n".join(f"{name}\n{modules[name].text}" for name in sorted(modules))
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LETTERS]


def _defining_module(method: Any) -> Module:
    if method.__module__.startswith(f"{PACKAGE}."):
        return read_module(method.__module__)
    try:
        return read_python(read_text(Path(str(inspect.getsourcefile(method)))))
    except (OSError, TypeError) as error:
        raise ValueError(
            f"The source of {method.__name__} cannot be read, so its runs could not be told from runs of other code: "
            "define it in a file."
        ) from error


@cache
def _file_of(name: str) -> Path | None:
    """The file of a module of hashlearn, or None if there is no such module."""
    if not name.startswith(f"{PACKAGE}."):
        return None
    base = Path(hashlearn.__file__).parent.joinpath(*name.split(".")[1:])
    for path in (base.with_suffix(".py"), base / "__init__.py", base.with_suffix(".c")):
        if path.is_file():
            return path
    return None
