"""A hasher as a search model of mteb, called as mteb 2.26 calls one; mteb itself takes long to import."""

import numpy as np
import pytest
from letters_model import Letters, letters

import hashlearn as hl
from hashlearn.models.export.mteb_search import CodeSearch

__all__ = ["letters"]

SETTINGS = {"task_metadata": None, "hf_split": "test", "hf_subset": "default", "encode_kwargs": {}, "num_proc": None}
WORDS = ["aaab", "aabb", "abbb", "ccdd", "cddd", "ccce", "xxyy", "xyyz", "yyzz"]
CORPUS = [{"id": f"d{place}", "title": word[:2], "text": word[2:]} for place, word in enumerate(WORDS)]
QUERIES = [{"id": "first", "text": "aabc"}, {"id": "second", "text": "zzyy"}]


@pytest.fixture(params=[hl.LSH, hl.OpenHasher])
def model(request, letters):
    rng = np.random.default_rng(0)
    rows = Letters("letters").rows(["".join(rng.choice(list("abcdxyz"), 6)) for _ in range(200)])
    return CodeSearch(request.param(64, random_state=0).fit(rows), "letters")


def test_it_finds_what_an_index_finds(model):
    model.index(CORPUS, **SETTINGS)
    found = model.search(QUERIES, top_k=4, **SETTINGS)
    texts, hasher = Letters("letters"), model.hasher
    index = hl.Index(64)
    index.add(hasher.encode(texts.rows([f"{row['title']} {row['text']}" for row in CORPUS])))
    X = texts.rows([row["text"] for row in QUERIES])
    hits = index.search(hasher.query(X, "alike") if hasher.searched_by_tables else hasher.encode_queries(X), 4)
    for query, one in zip(QUERIES, hits.per_query(), strict=True):
        assert found[query["id"]] == pytest.approx({f"d{hit.id}": -hit.distance for hit in one}, abs=1e-5)


def test_it_ranks_the_documents_it_is_told_to(model):
    model.index(CORPUS, **SETTINGS)
    told = {"first": ["d8", "d0"], "second": ["d3"]}
    found = model.search(QUERIES, top_k=9, top_ranked=told, **SETTINGS)
    whole = model.search(QUERIES, top_k=9, **SETTINGS)
    assert found == {query: {name: whole[query][name] for name in names} for query, names in told.items()}


def test_it_has_what_mteb_looks_for(model):
    assert model.mteb_model_meta is None
    with pytest.raises(ValueError, match="text model"):
        CodeSearch(model.hasher)
