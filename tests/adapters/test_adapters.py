"""hashlearn inside other harnesses: BitBudget as it is installed, the module file in a package like theirs."""

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from hashlearn import data

ADAPTERS = Path(__file__).resolve().parents[2] / "benchmarks" / "adapters"
# The contract of ann_benchmarks.algorithms.base.module.BaseANN, as far as the harnesses call it.
BASE = """
class BaseANN:
    def done(self): pass
    def batch_query(self, X, n): self.res = [self.query(q, n) for q in X]
    def get_batch_results(self): return self.res
    def __str__(self): return self.name
"""


@pytest.fixture
def adapters(monkeypatch):
    monkeypatch.syspath_prepend(ADAPTERS)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The module file where a harness has it: ``harness.algorithms.hashlearn.module``."""
    folder = tmp_path / "harness" / "algorithms"
    for name in ("base", "hashlearn"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
    for place in (folder.parent, folder):
        (place / "__init__.py").touch()
    (folder / "base" / "module.py").write_text(BASE)
    shutil.copy(ADAPTERS / "ann_module.py", folder / "hashlearn" / "module.py")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("harness.algorithms.hashlearn.module")
    for name in [name for name in sys.modules if name.split(".")[0] == "harness"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def rows():
    digits = data.digits()
    return digits.train_X[:400], digits.query_X[:20]


def test_bitbudget_scores_our_methods(adapters, rows):
    bitbudget = pytest.importorskip("bitbudget")
    methods = importlib.import_module("bitbudget_methods")
    assert set(methods.NAMES) <= set(bitbudget.list_methods())
    documents, queries = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in rows)
    best = (queries @ documents.T).argmax(axis=1)
    judgements = {str(number): {str(place): 1} for number, place in enumerate(best)}
    chosen = [
        "float32",
        "binary",
        "hashlearn-itq-8B",
        "hashlearn-itq-real-8B",
        "hashlearn-sign+int8",
        "rabitq-billed-16B",
    ]
    found = bitbudget.evaluate(documents, queries, range(400), range(20), judgements, methods=chosen)
    rows_by_name = {row["method"]: row for row in found}
    assert rows_by_name["hashlearn-itq-8B"]["bytes"] == 8
    assert rows_by_name["hashlearn-sign+int8"]["bytes"] == 8 + 64
    assert rows_by_name["rabitq-billed-16B"]["bytes"] == 16
    assert rows_by_name["float32"]["recall"] == 1
    for name in chosen[2:]:
        assert rows_by_name[name]["recall"] > 0.5
        assert rows_by_name[name]["ndcg"] > 0.5


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_bits_are_searched_by_hamming_distance(module, kind):
    rng = np.random.default_rng(0)
    bits, queries = rng.integers(0, 2, (300, 64)).astype(bool), rng.integers(0, 2, (5, 64)).astype(bool)
    algorithm = module.HashlearnHamming("hamming", kind)
    algorithm.fit(bits)
    for query in queries:
        distances = (bits != query).sum(axis=1)
        found = algorithm.query(query, 10)
        if kind == "flat":
            np.testing.assert_array_equal(distances[found], np.sort(distances)[:10])
        else:
            assert distances[found].mean() < distances.mean() - 5
    algorithm.batch_query(queries, 10)
    np.testing.assert_array_equal(algorithm.get_batch_results()[0], algorithm.query(queries[0], 10))
    assert str(algorithm) == f"hashlearn({kind})"
    # The data sets of VIBE have bytes of 8 bits each.
    of_bytes = module.HashlearnHamming("hamming", kind)
    of_bytes.fit(np.packbits(bits, axis=1))
    np.testing.assert_array_equal(of_bytes.query(np.packbits(queries[0]), 10), algorithm.query(queries[0], 10))
    with pytest.raises(ValueError, match=r"packed bytes \(uint8\)\. Got int64"):
        of_bytes.fit(bits.astype(np.int64))
    with pytest.raises(ValueError, match="Got the metric 'euclidean'"):
        module.HashlearnHamming("euclidean")


@pytest.mark.parametrize("metric", ["angular", "normalized", "euclidean", "ip"])
def test_floats_are_proposed_by_bits(module, rows, metric):
    X, queries = rows
    algorithm = module.HashlearnBits(metric, 32)
    algorithm.fit(X)
    algorithm.set_query_arguments(10)
    if metric != "euclidean":
        compared = X if metric == "ip" else X / np.linalg.norm(X, axis=1, keepdims=True)
        exact = np.argsort(-queries @ compared.T, axis=1)[:, :10]
    else:
        exact = np.argsort(((X[None] - queries[:, None]) ** 2).sum(axis=2), axis=1)[:, :10]
    recall = np.mean(
        [len(set(algorithm.query(q, 10)) & set(best)) / 10 for q, best in zip(queries, exact, strict=True)]
    )
    # Bits propose directions, and the largest inner products are also those of long rows.
    assert recall > (0.6 if metric == "ip" else 0.95)
    assert str(algorithm) == "hashlearn-bits(32, 10)"
    with pytest.raises(ValueError, match="Got the metric 'jaccard'"):
        module.HashlearnBits("jaccard", 32)


def test_the_configurations_name_what_is_there(module):
    yaml = pytest.importorskip("yaml")
    for name in ("ann-benchmarks.config.yml", "vibe.config.yml"):
        config = yaml.safe_load((ADAPTERS / name).read_text())
        for metrics in config.values():
            for (entry,) in metrics.values():
                assert hasattr(module, entry["constructor"])
                assert entry["base_args"] == ["@metric"]
                assert entry["module"].endswith(".algorithms.hashlearn")
        assert any("hamming" in metrics for metrics in config.values())


def test_the_protocol_of_sablayrolles(adapters, capsys):
    protocol = importlib.import_module("sablayrolles")
    pool = data.load("digits")
    few, many = (protocol.few_labels(pool, "class-code", 16, count, 0, n_queries=100) for count in (100, 1600))
    assert many > few
    itq = [protocol.few_labels(pool, "itq", 16, count, 0, n_queries=100) for count in (1600, 99_999)]
    assert many > itq[0]
    unseen = {name: protocol.unseen_classes(pool, name, 16, 0) for name in ("itq", "class-code")}
    assert unseen["itq"] > unseen["class-code"] + 0.1
    protocol.main(["--data", "digits", "--methods", "itq", "--bits", "8", "--labels", "300"])
    assert "| method | 300 labels | classes never trained on |" in capsys.readouterr().out
