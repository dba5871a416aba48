"""What the site shows that is not a page of this folder: README as home page, changelog, the reference, llms.txt.

Each class has a page of the reference, in ``api/methods/`` and ``api/classes/``. Each page is also in the site as
Markdown, and ``llms.txt`` lists the pages for programs that read them.

Pages are written to be read in the repository too, so they link to files outside of ``docs``. The site has no such
files: links to README, changelog and contributing guide lead to their pages, all others become plain text.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path

from mkdocs.structure.files import File

from hashlearn.deep import DeepHasher
from hashlearn.hashers.base import BaseHasher

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}

SPLIT_CLASSES = ("hashlearn.collection.", "hashlearn.index.")
"""Where a class is split over several files: the reference shows what it inherits from those as its own."""

MARK = r"<!-- (names|functions|classes) of (.+?)(?: except (.+))? -->"
"""Where a page shows what a module has in ``__all__``: functions in full, classes as a table of links."""

ASKED = r"^::: (\S+)(?:\n {4}.*)*"
"""Where a page asks for one object with its options."""


def on_files(files, config):
    """Add the pages that lie outside of the folder, and those of classes."""
    for path, page in OUTSIDE.items():
        # Links inside these pages start at the root of the repository.
        text = re.sub(r"\]\((?!http|#|docs/)([^)]+)\)", r"](../\1)", (ROOT / path).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text.replace("](docs/", "](")))
    for page, made in class_pages().items():
        back = "[What all hashers do](../hashers.md)\n\n" if page.startswith("api/methods/") else ""
        files.append(File.generated(config, page, content=f"# {made.__name__}\n\n{back}{entry(made)}\n"))
    return files


def methods_of_the_reference():
    """Classes of hashers, by name; those that users take first come first."""
    home = import_module("hashlearn.methods")
    made = {name: getattr(home, name) for name in ("OpenHasher", "AutoHasher", *home.__all__) if name[0].isupper()}
    return [one for one in made.values() if inspect.isclass(one) and one is not BaseHasher]


def class_pages():
    """Every class that has a page of its own, by the page."""
    pages = {f"api/methods/{made.__name__.lower()}.md": made for made in methods_of_the_reference()}
    for source in sorted((ROOT / "docs" / "api").glob("*.md")):
        for mark in re.finditer(MARK, source.read_text(encoding="utf-8")):
            for made in filter(inspect.isclass, named_by(mark)):
                path = f"api/classes/{made.__name__.lower()}.md"
                if made not in pages.values():
                    assert path not in pages, f"{made} and {pages.get(path)} have one name"
                    pages[path] = made
    return pages


def class_table(classes):
    """A table of links to the pages of classes, from a page in ``api/``, with the first sentence of each."""
    pages = {made: page.removeprefix("api/") for page, made in class_pages().items()}
    lines = [f"| [`{made.__name__}`]({pages[made]}) | {inspect.getdoc(made).splitlines()[0]} |" for made in classes]
    return "\n".join(["| class | what it is |", "|---|---|", *lines]) if lines else ""


def on_page_markdown(markdown, page, config, files):
    """Resolve links that leave the folder, and write the reference where a page asks for it."""
    depth = page.file.src_uri.count("/")
    up = "../" * (depth + 1)
    pattern = r"\[([^\]]+)\]\(" + re.escape(up) + r"([^)#]+)(#[^)]*)?\)"

    def resolve(link):
        text, target, anchor = link.groups()
        return f"[{text}]({'../' * depth}{OUTSIDE[target]}{anchor or ''})" if target in OUTSIDE else text

    return with_reference(re.sub(pattern, resolve, markdown), entry)


def with_reference(markdown, written):
    """Return the page with its marks replaced by a table of classes and by functions, as ``written`` writes them."""

    def reference(mark):
        named = list(named_by(mark))
        return "\n\n".join(
            [class_table(filter(inspect.isclass, named)), *map(written, filter(inspect.isfunction, named))]
        )

    markdown = markdown.replace("<!-- table of methods -->", class_table(methods_of_the_reference()))
    return re.sub(MARK, reference, markdown)


def named_by(mark):
    """What a mark asks for: the classes that it lists, or what ``__all__`` of a module names less the exceptions."""
    if mark[1] == "classes":
        return [object_of(name) for name in mark[2].split(", ")]
    home = import_module(mark[2])
    found = [getattr(home, name) for name in home.__all__ if name not in (mark[3] or "").split(", ")]
    return [one for one in found if inspect.isfunction(one) or (mark[1] == "names" and inspect.isclass(one))]


def entry(named):
    """One entry of the reference.

    What all hashers have in common stands once on the page of hashers, so a method shows only what its class says. The
    fields of a named tuple are in its docstring: their own ones say "Alias for field number 0".
    """
    name = f"{named.__module__}.{named.__qualname__}"
    if named.__module__ == "hashlearn.index.scan":
        # The reader of the reference takes this module for the compiled one, whose name differs by an underscore.
        return f"## {named.__qualname__} {{ #{name} }}\n\n```text\n{inspect.getdoc(named)}\n```"
    members = ""
    if is_method(named):
        members = "\n    options: { members: false }"
    elif inspect.isclass(named) and issubclass(named, tuple):
        members = f"\n    options: {{ members: {own_members(named) or 'false'} }}"
    elif inspect.isclass(named) and any(base.__module__.startswith(SPLIT_CLASSES) for base in named.__mro__[1:]):
        members = "\n    options: { inherited_members: true }"
    return f"::: {name}{members}"


def is_method(named):
    """Whether this is the class of one hasher, whose members the page of all hashers shows."""
    return inspect.isclass(named) and issubclass(named, BaseHasher) and named not in (BaseHasher, DeepHasher)


def own_members(made):
    """Public names that a class defines itself; fields of a named tuple are not among them."""
    return [name for name in vars(made) if not name.startswith("_") and name not in getattr(made, "_fields", ())]


def as_text(named, level=2):
    """One entry of the reference for the Markdown of the site: name, signature and docstring, also of methods."""
    try:
        signature = str(inspect.signature(named))
    except (TypeError, ValueError):
        signature = ""
    title = f"{'#' * level} {named.__name__}"
    parts = [title, f"```text\n{named.__name__}{signature}\n\n{inspect.getdoc(named)}\n```"]
    if inspect.ismodule(named) or (inspect.isclass(named) and not is_method(named)):
        members = [one for name, one in inspect.getmembers(named, inspect.isroutine) if not name.startswith("_")]
        own = [one for one in members if getattr(one, "__module__", "").startswith("hashlearn.")]
        parts += [as_text(one, level + 1) for one in own if one.__doc__]
    return "\n\n".join(parts)


def on_post_build(config):
    """Write each page as Markdown beside its HTML, and ``llms.txt``, which lists the pages by section."""
    site, docs = Path(config["site_dir"]), Path(config["docs_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]

    def add(path, text):
        (site / path).write_text(text, encoding="utf-8")
        heading = next(line for line in text.splitlines() if line.startswith("# "))
        lines.append(f"- [{heading.removeprefix('# ')}]({path})")

    for section in config["nav"]:
        for title, pages in section.items():
            lines += ["", f"## {title}", ""]
            for page in pages if isinstance(pages, list) else [pages]:
                path = next(iter(page.values())) if isinstance(page, dict) else page
                source = next((ROOT / outside for outside, shown in OUTSIDE.items() if shown == path), docs / path)
                text = with_reference(source.read_text(encoding="utf-8"), as_text)
                add(path, re.sub(ASKED, lambda asked: as_text(object_of(asked[1])), text, flags=re.MULTILINE))
    lines += ["", "## Classes", ""]
    for path, made in class_pages().items():
        add(path, as_text(made, 1))
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def object_of(name):
    """The module, class or function of a full name."""
    home, _, last = name.rpartition(".")
    found = getattr(import_module(home), last, None)
    return import_module(name) if found is None else found
