"""Rows, ids and hashers as people give them: single rows, columns of other libraries, and one clear sentence else."""

import uuid

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from hashlearn import ITQ, Collection


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def hasher(rows):
    return ITQ(n_bits=6, random_state=0).fit(rows)


@pytest.fixture
def texts(tmp_path, hasher):
    with Collection.create(tmp_path / "texts", hasher, ids="text", store_vectors=True) as texts:
        yield texts


def test_a_single_row_with_its_id_and_its_payload(texts, rows, hasher):
    assert texts.add(rows[0], ids="a", payload={"color": "red", "tags": ["x"]}).tolist() == ["a"]
    texts.add(rows[1].tolist(), ids=["b"], payload=[{"color": "blue"}])
    texts.add(codes=hasher.encode(rows[2:3])[0], ids="c", vectors=rows[2])
    assert [item.payload for item in texts.get(["a", "b", "c"])] == [
        {"color": "red", "tags": ["x"]},
        {"color": "blue"},
        {},
    ]
    np.testing.assert_array_equal([item.vector for item in texts.get(["a", "b", "c"])], rows[:3])
    np.testing.assert_array_equal([item.code for item in texts.get(["a", "b", "c"])], hasher.encode(rows[:3]))


def test_a_single_row_gets_the_next_number(tmp_path, hasher, rows):
    with Collection.create(tmp_path / "shop", hasher) as shop:
        shop.add(rows[:3])
        assert shop.add(rows[3], payload={"n": 3}).tolist() == [3]
        assert shop.add(rows[4], ids=9).tolist() == [9]
        assert shop.get(3).payload == {"n": 3}


def test_columns_of_other_libraries_are_ids_and_lists_of_filters(texts, rows):
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    names = ["a", "b", "c"]
    for column in (pd.Index(names), pd.Series(names, index=[4, 5, 6]), pl.Series(names), pa.array(names)):
        assert texts.add(rows[:3], ids=column, payload={"n": [0, 1, 2]}).tolist() == names
        assert [item.id for item in texts.get(column)] == names
    for values in (pd.Series([0, 2]), pl.Series([0, 2]), np.array([0, 2]), {0, 2}):
        assert texts.count({"n": {"in": values}}) == 2


def test_a_series_is_a_single_query(texts, rows):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    texts.add(rows, ids=[f"row {n}" for n in range(40)])
    expected = texts.search(rows[3], k=4).to_list()
    assert texts.search(pd.Series(rows[3], index=list("abcdef")), k=4).to_list() == expected
    assert texts.search(pl.Series(rows[3]), k=4).to_list() == expected


@pytest.mark.parametrize("given", ["red shoes", ["red shoes"], np.array([["red shoes"]])])
def test_texts_are_no_rows(texts, given):
    for call in (texts.search, lambda X: texts.add(X, ids=["a"])):
        with pytest.raises(ValueError, match="Got the text 'red shoes' instead: give texts as texts="):
            call(given)


@pytest.mark.parametrize("ids", [["a"], [uuid.UUID(int=1)], np.array(["a"]), "a"])
def test_texts_where_ids_are_numbers(tmp_path, hasher, rows, ids):
    with Collection.create(tmp_path / "shop", hasher) as shop:
        for call in (lambda: shop.add(rows[:1], ids=ids), lambda: shop.get(ids), lambda: shop.delete(ids)):
            with pytest.raises(ValueError, match="create it with ids='text' or ids='uuid'"):
                call()


def test_a_hasher_that_is_not_fitted_makes_no_collection(tmp_path):
    with pytest.raises(NotFittedError, match="call 'fit' first"):
        Collection.create(tmp_path / "shop", ITQ(8))
    with pytest.raises(TypeError, match="Got the class ITQ instead"):
        Collection.create(tmp_path / "shop", ITQ)
    assert not (tmp_path / "shop").exists()


@pytest.mark.parametrize(("library", "name"), [("numpy", "array"), ("pandas", "DataFrame"), ("torch", "tensor")])
def test_a_row_that_holds_nan_is_named(tmp_path, hasher, rows, library, name):
    make = getattr(pytest.importorskip(library), name)
    bad = rows[:9].copy()
    bad[7, 2] = np.nan
    with Collection.create(tmp_path / "shop", hasher) as shop:
        for call in (shop.add, shop.search, lambda X: shop.search(X, asymmetric=True)):
            with pytest.raises(
                ValueError, match=r"^Rows and queries are finite numbers\. Row 7 holds NaN or infinity\.$"
            ):
                call(make(bad))
        with pytest.raises(ValueError, match="X has 5 features, but ITQ is expecting 6 features"):
            shop.add(rows[:, :5])
        assert len(shop) == 0


def test_one_dict_for_rows_in_a_list_is_explained(texts, rows):
    with pytest.raises(ValueError, match=r"the column 'color' must be a list with one value per row\. Got str"):
        texts.add(rows[:1], ids=["a"], payload={"color": "red"})
    assert len(texts) == 0


def test_empty_lists_are_no_rows(tmp_path, hasher, rows):
    with Collection.create(tmp_path / "shop", hasher) as shop:
        assert shop.add([]).shape == shop.add([], ids=[]).shape == shop.add(codes=[]).shape == (0,)
        shop.add(rows)
        for more in ({}, {"asymmetric": True}):
            assert shop.search([], k=3, **more).ids.shape == (0, 3)
        assert shop.search(codes=[], k=3).ids.shape == (0, 3)
        assert shop.within([], radius=1).offsets.tolist() == [0]


def test_empty_lists_are_no_rows_where_vectors_are_kept(texts, rows):
    assert texts.add([], ids=[]).shape == (0,)
    texts.add(rows[:2], ids=["a", "b"])
    assert texts.search([], k=3, rescore=True).ids.shape == (0, 0)


def test_a_filter_in_the_place_of_ids_is_explained(texts, rows):
    texts.add(rows[:2], ids=["a", "b"], payload={"n": [1, 2]})
    for call in (texts.get, texts.delete, lambda ids: texts.update_payload(ids, {"n": 3})):
        with pytest.raises(ValueError, match=r"Got \{'n': 1\} instead: give a filter as where="):
            call({"n": 1})
    assert len(texts) == 2


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"store_vector": True}, "store_vectors"),
        ({"index": ["n"]}, "indexed"),
        ({"kind": "ivf", "n_list": 4}, "n_lists"),
    ],
)
def test_a_misspelled_argument_of_create_is_recognized(tmp_path, hasher, given, meant):
    with pytest.raises(ValueError, match=rf"Did you mean '{meant}'\?"):
        Collection.create(tmp_path / "shop", hasher, **given)
    with pytest.raises(ValueError, match=r"kind 'flat' has the settings 'word_bits'\. Got 'speed' instead"):
        Collection.create(tmp_path / "shop", hasher, speed=4)
    assert not (tmp_path / "shop").exists()


def test_a_row_that_finds_itself_has_plain_zero_as_distance(texts, rows):
    texts.add(rows, ids=[f"row {number}" for number in range(len(rows))])
    hits = texts.search(rows, k=1, rescore=True)
    assert not np.signbit(hits.distances).any()
    np.testing.assert_array_equal(hits.distances, 0)


def test_the_constructor_names_create_and_open(hasher):
    for arguments in (("shop",), ("shop", hasher)):
        with pytest.raises(TypeError, match=r"Collection\.create\('shop', hasher\).*Collection\.open\('shop'\)"):
            Collection(*arguments)
