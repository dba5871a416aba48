"""What the site shows that is not a page of this folder: README as home page, changelog, the reference, llms.txt.

Each method has a page of the reference, in ``api/methods/``. Each page is also in the site as Markdown, and
``llms.txt`` lists the pages for programs that read them.

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


def on_files(files, config):
    """Add the pages that lie outside of the folder."""
    for path, page in OUTSIDE.items():
        # Links inside these pages start at the root of the repository.
        text = re.sub(r"\]\((?!http|#|docs/)([^)]+)\)", r"](../\1)", (ROOT / path).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text.replace("](docs/", "](")))
    for name, made in methods_of_the_reference().items():
        text = f"# {name}\n\n[What all hashers do](../hashers.md)\n\n{entry(made)}\n"
        files.append(File.generated(config, f"api/methods/{name.lower()}.md", content=text))
    return files


def methods_of_the_reference():
    """Classes of hashers that have a page each, by name; those that users take first come first."""
    home = import_module("hashlearn.methods")
    made = {name: getattr(home, name) for name in ("OpenHasher", "AutoHasher", *home.__all__) if name[0].isupper()}
    return {name: one for name, one in made.items() if inspect.isclass(one) and one is not BaseHasher}


def method_table():
    """A table of links to the pages of the methods, with the first sentence of each."""
    lines = [
        f"| [`{name}`](methods/{name.lower()}.md) | {inspect.getdoc(made).splitlines()[0]} |"
        for name, made in methods_of_the_reference().items()
    ]
    return "\n".join(["| class | what it is |", "|---|---|", *lines])


def on_page_markdown(markdown, page, config, files):
    """Resolve links that leave the folder, and list the names of a module where a page asks for them."""
    depth = page.file.src_uri.count("/")
    up = "../" * (depth + 1)
    pattern = r"\[([^\]]+)\]\(" + re.escape(up) + r"([^)#]+)(#[^)]*)?\)"

    def resolve(link):
        text, target, anchor = link.groups()
        return f"[{text}]({'../' * depth}{OUTSIDE[target]}{anchor or ''})" if target in OUTSIDE else text

    markdown = re.sub(pattern, resolve, markdown).replace("<!-- table of methods -->", method_table())
    return re.sub(
        r"<!-- (names|functions) of (\S+)(?: except (.+))? -->",
        lambda mark: reference(mark[2], (mark[3] or "").split(", "), classes=mark[1] == "names"),
        markdown,
    )


def reference(module, elsewhere, classes=True):
    """The reference of all functions, and classes, in ``__all__`` of a module, less those that stand elsewhere."""
    home = import_module(module)
    found = [getattr(home, name) for name in home.__all__ if name not in elsewhere]
    kept = [named for named in found if inspect.isfunction(named) or (classes and inspect.isclass(named))]
    return "\n\n".join(map(entry, kept))


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
    if inspect.isclass(named) and issubclass(named, BaseHasher) and named not in (BaseHasher, DeepHasher):
        members = "\n    options: { members: false }"
    elif inspect.isclass(named) and issubclass(named, tuple):
        own = [name for name in vars(named) if not name.startswith("_") and name not in named._fields]
        members = f"\n    options: {{ members: {own or 'false'} }}"
    elif inspect.isclass(named) and any(base.__module__.startswith(SPLIT_CLASSES) for base in named.__mro__[1:]):
        members = "\n    options: { inherited_members: true }"
    return f"::: {name}{members}"


def on_post_build(config):
    """Write each page as Markdown beside its HTML, and ``llms.txt``, which lists the pages by section."""
    site, docs = Path(config["site_dir"]), Path(config["docs_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for section in config["nav"]:
        for title, pages in section.items():
            lines += ["", f"## {title}", ""]
            for page in pages if isinstance(pages, list) else [pages]:
                path = next(iter(page.values())) if isinstance(page, dict) else page
                source = next((ROOT / outside for outside, shown in OUTSIDE.items() if shown == path), docs / path)
                text = source.read_text(encoding="utf-8")
                (site / path).write_text(text, encoding="utf-8")
                heading = next(line for line in text.splitlines() if line.startswith("# "))
                lines.append(f"- [{heading.removeprefix('# ')}]({path})")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
