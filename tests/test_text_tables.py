"""Text tables as people have them: separators, decimal commas, ids and headers are found, and guesses are said."""

import csv
import io
import warnings

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hashlearn import files
from hashlearn.files.text_tables import TextForm, open_text


def written(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def form_of(path):
    with open_text(path) as (_, form):
        return form


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt"])
def test_every_separator_in_every_kind_of_file(separator, name, tmp_path):
    lines = [["a", "b", "c"], ["1.5", "2", "-3e2"], ["4", "5", "6.25"]]
    path = written(tmp_path, name, "\n".join(separator.join(line) for line in lines))
    assert files.read_features(path).tolist() == [[1.5, 2, -300], [4, 5, 6.25]]
    path = written(tmp_path, name, "\n".join(separator.join(line) for line in lines[1:]))
    assert files.read_features(path).tolist() == [[1.5, 2, -300], [4, 5, 6.25]]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas(separator, tmp_path):
    lines = [["a", "b"], ["1,5", "2"], ['"-0,25"', "3,125e2"], ["10", ",5"]]
    path = written(tmp_path, "t.csv", "\n".join(separator.join(line) for line in lines))
    assert form_of(path) == TextForm(separator, ",")
    assert files.read_features(path).tolist() == [[1.5, 2], [-0.25, 312.5], [10, 0.5]]
    assert next(iter(files.payload_rows(path))) == {"a": 1.5, "b": 2}


def test_decimal_commas_without_a_header(tmp_path):
    """Split at commas, both lines would have three fields."""
    path = written(tmp_path, "t.csv", "1,5;2,5\n3,5;4,25\n")
    assert files.read_features(path).tolist() == [[1.5, 2.5], [3.5, 4.25]]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("title,price\nred; small,1.5\nblue; big,2\n", TextForm(",")),  # semicolons in text
        ("a;b\n1.5;2.5\n3;4\n", TextForm(";")),
        ("a;note\n1.5;1,5 m\n", TextForm(";")),
        ("a;b\n1.5;2,5\n", TextForm(";")),  # both marks: commas mean something else
        ('name,x\n"Doe, Jane",1.5\n', TextForm(",")),
        ("7\n8\n", TextForm(",")),
    ],
)
def test_what_else_may_stand_in_a_table(text, form, tmp_path):
    assert form_of(written(tmp_path, "t.csv", text)) == form


def test_a_number_with_two_marks_is_not_guessed_at(tmp_path):
    path = written(tmp_path, "t.csv", "a;b\n1,5;2\n1.234,5;3\n")
    with pytest.raises(files.FileError, match=r"'1\.234,5' is not a number in row 1, column 1"):
        files.read_features(path)


def test_values_equal_those_of_python(tmp_path):
    """Every bit of every number, also at the ends of the range, whatever separates them."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((300, 7)) * 10.0 ** rng.integers(-300, 300, size=(300, 7))
    values[0] = [5e-324, 1.7976931348623157e308, -0.0, 0.1, 1 / 3, 2**53 + 1, 123456789012345678]
    for separator, decimal in ((",", "."), (";", ","), ("\t", ".")):
        lines = [separator.join(repr(float(v)).replace(".", decimal) for v in row) for row in values]
        path = written(tmp_path, "t.csv", "\n".join(lines))
        found = files.read_features(path)
        assert found.dtype == np.float64
        assert found.tobytes() == values.tobytes()


def test_text_columns_with_quotes_and_line_breaks(tmp_path):
    stream = io.StringIO()
    rows = [["a", "text", "b"], [1, 'said "no",\nthen left; 1,5', 2.5], [3, "", 4]]
    csv.writer(stream).writerows(rows)
    path = tmp_path / "t.csv"
    path.write_bytes(stream.getvalue().encode())
    with pytest.warns(UserWarning, match="columns that are not numbers are left out: text"):
        assert files.read_features(path).tolist() == [[1, 2.5], [3, 4]]
    assert files.read_features(f"{path}:b,a").tolist() == [[2.5, 1], [4, 3]]


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize("line", ["3,y", "3,y,4,5"])
def test_rows_of_another_length_are_found_beside_columns_that_are_not_read(line, tmp_path):
    path = written(tmp_path, "t.csv", f"a,text,b\n1,x,2\n{line}\n5,z,6\n")
    with pytest.raises(files.FileError, match=rf"line 3 has {line.count(',') + 1} columns, the first has 3"):
        files.read_features(path)


def test_python_only_spellings_of_numbers_are_text(tmp_path):
    path = written(tmp_path, "t.csv", "1,2\n3,1_000\n")
    with pytest.raises(files.FileError, match="'1_000' is not a number in row 1, column 2"):
        files.read_features(path)


# Columns that look like ids


@pytest.mark.parametrize("name", ["id", "ID", "user_id", "image id", "imageId", "index", "idx", "uuid", "Unnamed: 0"])
def test_ids_are_named_and_left_out_unless_asked_for(name, tmp_path):
    path = written(tmp_path, "t.csv", f"{name},a,b\n7,1.5,2\n8,3,4\n")
    with pytest.warns(
        UserWarning, match=rf"look like ids are left out: {name}; name the columns to use them"
    ) as caught:
        assert files.read_features(path).tolist() == [[1.5, 2], [3, 4]]
    assert f"as in {path}:{name},a." in str(caught[0].message)
    with pytest.warns(UserWarning, match="look like ids"):
        assert files.read_features(f"{path}:-b").tolist() == [[1.5], [3]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert files.read_features(f"{path}:{name},a").tolist() == [[7, 1.5], [8, 3]]


@pytest.mark.parametrize("name", ["valid", "grid", "humid", "monkey", "identity", "keys_pressed"])
def test_other_words_are_features(name, tmp_path, recwarn):
    path = written(tmp_path, "t.csv", f"{name},a\n7,1\n8,2\n")
    assert files.read_features(path).tolist() == [[7, 1], [8, 2]]
    assert not recwarn


def test_an_id_that_is_no_whole_number_is_a_feature(tmp_path, recwarn):
    assert files.read_features(written(tmp_path, "t.csv", "key,a\n0.5,1\n")).tolist() == [[0.5, 1]]
    assert not recwarn


def test_nothing_but_ids(tmp_path):
    path = written(tmp_path, "t.csv", "id,name\n7,x\n")
    with pytest.raises(files.FileError, match=r"nothing but ids \(id\); to use them, write .*t\.csv:id\."):
        files.read_features(path)


def test_pairs_are_ids(tmp_path, recwarn):
    path = written(tmp_path, "p.csv", "first_id,second_id\n0,3\n2,1\n")
    assert files.read_pairs(path).tolist() == [[0, 3], [2, 1]]
    assert files.read_ids(f"{path}:first_id").tolist() == [0, 2]
    assert files.read_ids(written(tmp_path, "i.csv", "id\n10\n20\n")).tolist() == [10, 20]
    assert not recwarn


def test_ids_of_parquet_files(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": [7, 8], "a": [1.5, 2.5], "class_id": [0, 1]}), path)
    with pytest.warns(UserWarning, match="look like ids are left out: id;"):
        assert files.read_features(f"{path}:-class_id").tolist() == [[1.5], [2.5]]
    assert files.read_features(f"{path}:id").tolist() == [[7], [8]]
    pq.write_table(pa.table({"id": [7, 8], "label": ["x", "y"]}), path)
    with pytest.warns(UserWarning, match="look like ids are left out: id;"):
        assert files.read_labels(path).tolist() == ["x", "y"]


# Headers of label files


@pytest.mark.parametrize("name", ["y.csv", "y.txt"])
def test_a_line_too_many_is_a_header(name, tmp_path):
    path = written(tmp_path, name, "animal\ncat\ndog\n")
    assert files.read_labels(path, n_rows=2).tolist() == ["cat", "dog"]
    assert files.read_labels(path, n_rows=3).tolist() == ["animal", "cat", "dog"]
    assert files.read_labels(path).tolist() == ["animal", "cat", "dog"]


@pytest.mark.parametrize("name", ["y.csv", "y.txt"])
@pytest.mark.parametrize("n_rows", [None, 2, 3])
def test_a_sure_header_is_one_whatever_is_expected(name, n_rows, tmp_path):
    """Taken for labels because the numbers agree by chance, all labels would belong to the wrong rows."""
    assert files.read_labels(written(tmp_path, name, "Category\ncat\ndog\n"), n_rows=n_rows).tolist() == ["cat", "dog"]
    assert files.read_labels(written(tmp_path, name, "animal\n3\n1\n"), n_rows=n_rows).tolist() == [3, 1]


def test_a_number_is_no_header(tmp_path):
    assert files.read_labels(written(tmp_path, "y.csv", "3\n1\n2\n"), n_rows=2).tolist() == [3, 1, 2]


def test_ids_beside_labels(tmp_path):
    path = written(tmp_path, "y.csv", "image_id,animal\n7,cat\n8,dog\n")
    with pytest.warns(UserWarning, match="look like ids are left out: image_id;"):
        assert files.read_labels(path).tolist() == ["cat", "dog"]
    path = written(tmp_path, "y.csv", "id,sea,sky\n7,1,0\n8,0,1\n")
    with pytest.warns(UserWarning, match="left out: id;"):
        assert files.read_labels(path).tolist() == [[1, 0], [0, 1]]


def test_the_index_of_pandas_is_no_label(tmp_path, recwarn):
    assert files.read_labels(written(tmp_path, "y.csv", ",label\n0,cat\n1,dog\n")).tolist() == ["cat", "dog"]
    assert not recwarn


def test_the_advice_names_a_column_that_is_there(tmp_path):
    path = written(tmp_path, "y.csv", "Target,x\ncat,1.5\ndog,2\n")
    with pytest.raises(
        files.FileError, match=r"2 columns that are not all 0 and 1; name the label column.*y\.csv:Target\."
    ):
        files.read_labels(path)
    path = written(tmp_path, "y.csv", "x,animal\n1.5,cat\n2,dog\n")
    with pytest.raises(files.FileError, match=r"as in .*y\.csv:animal\."):
        files.read_labels(path)
    path = written(tmp_path, "y.csv", "1.5,cat\n2,dog\n")
    with pytest.raises(files.FileError, match="give a file of labels alone"):
        files.read_labels(path)


# Advice for files with several arrays

ARRAYS = {
    "a_names": np.array(["x", "y", "z"]),
    "id_of_row": np.arange(3),
    "embeddings": np.ones((3, 8), dtype=np.float32),
    "few": np.ones((2, 8), dtype=np.float32),
    "images": np.zeros((3, 4, 4), dtype=np.uint8),
    "labels": np.arange(3),
}


def write_arrays(path, arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
        return
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array.astype("S") if array.dtype.kind == "U" else array


@pytest.mark.parametrize("name", ["d.npz", "d.h5"])
@pytest.mark.parametrize(
    ("read", "right"),
    [(files.read_features, "embeddings"), (files.read_labels, "labels"), (files.read_ids, "id_of_row")],
)
def test_the_hint_names_an_array_that_can_be_meant(read, right, name, tmp_path):
    path = tmp_path / name
    write_arrays(path, ARRAYS)
    with pytest.raises(files.FileError, match=rf"several parts \(.+\); choose one, as in .*{name}:{right}\.$"):
        read(path)
    read(f"{path}:{right}")


@pytest.mark.parametrize("header", ["0,1,2,3", "1,2,3,4", "sku,0,1,2", ",0,1,2", '"sku","0","1","2"'])
def test_names_that_count_columns_are_a_header(header, tmp_path):
    """Pandas writes such names; as a row of features they would spoil the fit without a word."""
    path = written(tmp_path, "t.csv", f"{header}\n7,0.5,-2,1\n8,1.5,3,1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert files.read_features(path).shape[0] == 2
    assert files.read_features(f"{path}:1").ravel().tolist() in ([0.5, 1.5], [7, 8], [-2, 3])


@pytest.mark.parametrize("first", ["0,1,2", "1,2,3", "0,2,3", "0.0,1.0,2.0"])
def test_whole_numbers_over_whole_numbers_are_a_row(first, tmp_path):
    path = written(tmp_path, "t.csv", f"{first}\n7,5,2\n8,1,3\n")
    assert files.read_features(path).shape == (3, 3)
    for text in ("0.5,1,2,3\n7,0.5,2,3\n", "1,2,3,4\n5,nan,7,8\n", "0,1\n0.5,2\n"):
        assert files.open_features(written(tmp_path, "u.csv", text)).shape[0] == 2


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_first_line_that_tells_the_separator(end, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeff".encode() + end.join(["sep=;", "a;b", "1,5;2", "", "3;4,25", ""]).encode())
    assert files.read_features(path).tolist() == [[1.5, 2], [3, 4.25]]
    assert list(files.payload_rows(path)) == [{"a": 1.5, "b": 2}, {"a": 3, "b": 4.25}]


def test_other_encodings_and_quoted_decimal_commas_are_told(tmp_path):
    for encoding in ("utf-16", "latin-1"):
        (tmp_path / "t.csv").write_bytes("käse,x\n1.5,2\n".encode(encoding))
        with pytest.raises(files.FileError, match="not text in UTF-8: save it as UTF-8, in Excel as 'CSV UTF-8'"):
            files.read_features(tmp_path / "t.csv")
    path = written(tmp_path, "t.csv", 'a,b\n"1,5","2,5"\n')
    with pytest.raises(files.FileError, match="'1,5' is no number; save it with semicolons"):
        files.read_features(path)


def test_prices_with_a_last_zero_are_numbers_in_payloads(tmp_path):
    """A filter such as price < 20 would miss rows whose price is text."""
    fields = {"12.50": 12.5, "7.00": 7, "-0.30": -0.3, "0": 0, str(2**63 - 1): 2**63 - 1, "9007199254740992.0": 2.0**53}
    kept = [
        "007",
        "1e5",
        "nan",
        "1_000",
        ".5",
        "+1",
        "0.1000000000000000055",
        "9007199254740993.0",
        str(2**63),
        "9" * 5000,
    ]
    rows = files.payload_rows(written(tmp_path, "t.csv", "\n".join(["a", *fields, *kept])))
    assert [row["a"] for row in rows] == [*fields.values(), *kept]


def test_a_missing_column_is_told_with_those_that_there_are(tmp_path):
    names = [f"c{number}" for number in range(10)]
    (tmp_path / "t.csv").write_text(",".join(names) + "\n" + ",".join(["0.5"] * 10) + "\n")
    with pytest.raises(files.FileError, match=r"has no column 'topic'; it has c0, .*, c9\.$"):
        files.read_features(f"{tmp_path / 't.csv'}:topic")


def packages(tmp_path, numbers=("size",)):
    """A table of texts, with some numbers beside them, as .csv and .parquet."""
    about = ["fast reader of JSON files", "small and friendly editor", "a game of cards", "tools for old archives"]
    table = pd.DataFrame({"package": list("abcd"), "section": ["dev", "dev", "games", "dev"], "about": about})
    for number, name in enumerate(numbers):
        table[name] = np.arange(4) * 1.5 + number
    table.to_csv(tmp_path / "db.csv", index=False)
    table.to_parquet(tmp_path / "db.parquet")
    return [tmp_path / "db.csv", tmp_path / "db.parquet"]


def test_a_table_of_texts_is_not_taken_for_its_few_numbers(tmp_path):
    for path in packages(tmp_path):
        for name in (path, f"{path}:-section"):
            with pytest.raises(files.FileError) as raised:
                files.read_features(name)
            assert str(raised.value) == (
                f"{path} holds texts in its column 'about' and besides only numbers in size: to use the texts, name "
                f"their column with --text; to use the numbers, name those, as in {path}:size."
            )
        assert files.read_features(f"{path}:size").tolist() == [[0], [1.5], [3], [4.5]]


@pytest.mark.parametrize("numbers", [(), ("id",)])
def test_texts_without_numbers_are_told_as_such(numbers, tmp_path):
    for path in packages(tmp_path, numbers):
        with pytest.raises(files.FileError, match=r"holds texts in its column 'about' and .* name their column with"):
            files.read_features(path)


def test_the_columns_that_are_used_are_named_beside_those_left_out(tmp_path):
    wanted = "not numbers are left out: package, section, about; used: v0, v1, v2, v3, v4 …"
    for path in packages(tmp_path, [f"v{n}" for n in range(8)]):
        with pytest.warns(UserWarning, match=wanted):
            assert files.read_features(path).shape == (4, 8)
