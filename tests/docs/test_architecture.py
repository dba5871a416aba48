"""The architecture page is true: every file has a room, and imports go up the list only."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import hashlearn

PACKAGE = Path(hashlearn.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
# These stand beside the list: the package's own face, and ``python -m hashlearn``.
FACES = ("__init__.py", "__main__.py")
# The hash function "network" is trained by deep, the only room that may import torch, when it is fitted.
WHEN_FITTED = {("functions/network.py", "deep")}


def rooms():
    """Names of files and folders in the order of the page; those of one line share a place."""
    table = [line for line in PAGE.read_text().split("\n\n")[2].splitlines() if line.startswith("| `")]
    return [re.findall(r"`([\w./]+)`", line.split("|")[1]) for line in table]


PLACES = {name.removesuffix("/").removesuffix(".py"): place for place, line in enumerate(rooms()) for name in line}


def place(parts):
    """The line of a module: that of its file if the page lists it, otherwise that of its folder."""
    return PLACES.get("/".join(parts[:2]), PLACES.get(parts[0]))


def imported(tree):
    """Modules of hashlearn that a file imports, when it is imported itself or inside its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hashlearn":
            path = node.module.split(".")[1:]
            yield from ([path] if path else [[alias.name] for alias in node.names])
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1:] for a in node.names if a.name.startswith("hashlearn."))


def test_every_file_has_a_room_and_every_room_a_file():
    here = {path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    rooms = {name.partition("/")[0] for name in PLACES}
    assert {name if (PACKAGE / name).exists() else f"{name}.py" for name in rooms} == here - {*FACES}
    assert all((PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists() for name in PLACES)


def test_imports_go_up_the_list():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE)
        if str(own) in FACES:
            continue
        mine = place(own.with_suffix("").parts)
        for parts in imported(ast.parse(path.read_text())):
            other = place(parts)
            if other is not None and other > mine and (str(own), parts[0]) not in WHEN_FITTED:
                wrong.append(f"{own} imports {'.'.join(parts)}")
    assert not wrong


def module_file(parts):
    """The file of a module, relative to the package; None if there is no such module."""
    path = Path(*parts)
    found = [one for one in (path.with_suffix(".py"), path / "__init__.py") if parts and (PACKAGE / one).exists()]
    return str(found[0]) if found else None


def for_types_alone(tree):
    """The imports that only type checkers follow."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {inner for block in blocks for statement in block.body for inner in ast.walk(statement)}


def test_imports_have_no_cycles():
    """Inside a room, too, a file can be read after those that it imports, at its top or inside its functions."""
    graph = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        own, tree = str(path.relative_to(PACKAGE)), ast.parse(path.read_text())
        needed, unread = graph.setdefault(own, set()), for_types_alone(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node not in unread and (node.module or "").startswith("hashlearn."):
                package = node.module.split(".")[1:]
                if own in FACES or (own, package[0]) in WHEN_FITTED:
                    continue
                needed |= {module_file([*package, name.name]) or module_file(package) for name in node.names}
            elif isinstance(node, ast.Import) and node not in unread:
                names = [name.name.split(".")[1:] for name in node.names if name.name.startswith("hashlearn.")]
                needed |= {module_file(name) for name in names}
    TopologicalSorter({file: needed - {None} for file, needed in graph.items()}).prepare()  # CycleError names the files
