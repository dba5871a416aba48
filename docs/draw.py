"""Run the examples and keep the pictures that they draw.

python docs/draw.py [name ...]
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent / "examples"


def draw(page: Path) -> None:
    """Run all Python blocks of a page in an empty folder, and move its picture to where the page is."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        space: dict = {"__name__": page.stem}
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
            exec(compile(block, str(page), "exec"), space)
        for picture in Path().glob(f"{page.stem}.[ps][nv]g"):
            shutil.copy(picture, EXAMPLES)
        os.chdir(EXAMPLES)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(page.stem for page in EXAMPLES.glob("*.md") if page.stem != "index"):
        draw(EXAMPLES / f"{name}.md")
