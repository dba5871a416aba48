"""What the site shows that is not a page of this folder: README as home page, changelog, the reference.

Pages are written to be read in the repository too, so they link to files outside of ``docs``. The site has no such
files: links to README, changelog and contributing guide lead to their pages, all others become plain text.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path

from mkdocs.structure.files import File

from hashlearn.deep import DeepHasher
from hashlearn.fitting.base import BaseHasher

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}

SPLIT_CLASSES = ("hashlearn.collection.", "hashlearn.index.")
"""Where a class is split over several files: the reference shows what it inherits from those as its own."""


def on_files(files, config):
    """Add the pages that lie outside of the folder."""
    for path, page in OUTSIDE.items():
        # Links inside these pages start at the root of the repository.
        text = re.sub(r"\]\((?!http|#|docs/)([^)]+)\)", r"](../\1)", (ROOT / path).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown, page, config, files):
    """Resolve links that leave the folder, and list the names of a module where a page asks for them."""
    depth = page.file.src_uri.count("/")
    up = "../" * (depth + 1)
    pattern = r"\[([^\]]+)\]\(" + re.escape(up) + r"([^)#]+)(#[^)]*)?\)"

    def resolve(link):
        text, target, anchor = link.groups()
        return f"[{text}]({'../' * depth}{OUTSIDE[target]}{anchor or ''})" if target in OUTSIDE else text

    markdown = re.sub(pattern, resolve, markdown)
    return re.sub(
        r"<!-- names of (\S+)(?: except (.+))? -->",
        lambda mark: reference(mark[1], (mark[2] or "").split(", ")),
        markdown,
    )


def reference(module, elsewhere):
    """The reference of all functions and classes in ``__all__`` of a module, less those that stand elsewhere."""
    home = import_module(module)
    found = [getattr(home, name) for name in home.__all__ if name not in elsewhere]
    return "\n\n".join(map(entry, [named for named in found if inspect.isclass(named) or inspect.isfunction(named)]))


def entry(named):
    """One entry of the reference.

    What all hashers have in common stands once on the page of hashers, so a method shows only what its class says. The
    fields of a named tuple are in its docstring: their own ones say "Alias for field number 0".
    """
    members = ""
    if inspect.isclass(named) and issubclass(named, BaseHasher) and named not in (BaseHasher, DeepHasher):
        members = "\n    options: { members: false }"
    elif inspect.isclass(named) and issubclass(named, tuple):
        own = [name for name in vars(named) if not name.startswith("_") and name not in named._fields]
        members = f"\n    options: {{ members: {own or 'false'} }}"
    elif inspect.isclass(named) and any(base.__module__.startswith(SPLIT_CLASSES) for base in named.__mro__[1:]):
        members = "\n    options: { inherited_members: true }"
    return f"::: {named.__module__}.{named.__qualname__}{members}"
