"""What the site shows that is not a page of this folder: README as home page, changelog, the reference of all methods.

Pages are written to be read in the repository too, so they link to files outside of ``docs``. The site has no such
files: links to README, changelog and contributing guide lead to their pages, all others become plain text.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File

from hashlearn.hashers import COMPOSITIONS, METHODS

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def on_files(files, config):
    """Add the pages that lie outside of the folder."""
    for path, page in OUTSIDE.items():
        # Links inside these pages start at the root of the repository.
        text = re.sub(r"\]\((?!http|#|docs/)([^)]+)\)", r"](../\1)", (ROOT / path).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown, page, config, files):
    """Resolve links that leave the folder, and list all methods where a page asks for them."""
    depth = page.file.src_uri.count("/")
    up = "../" * (depth + 1)
    pattern = r"\[([^\]]+)\]\(" + re.escape(up) + r"([^)#]+)(#[^)]*)?\)"

    def resolve(link):
        text, target, anchor = link.groups()
        return f"[{text}]({'../' * depth}{OUTSIDE[target]}{anchor or ''})" if target in OUTSIDE else text

    markdown = re.sub(pattern, resolve, markdown)
    hashers = [*METHODS.values(), *COMPOSITIONS]
    # What all hashers have in common stands once on the page, so a method shows only what its class says.
    reference = "\n\n".join(
        f"::: {hasher.__module__}.{hasher.__qualname__}\n    options: {{ members: false }}" for hasher in hashers
    )
    return markdown.replace("<!-- all methods -->", reference)
