"""Names that 0.3 changed in hashlearn.data still work, and warn."""

import json

import pytest

import hashlearn as hl
from hashlearn.cli import main
from hashlearn.data import coco, nuswide, synthetic


def test_the_old_name_of_a_catalog_entry():
    with pytest.warns(
        FutureWarning, match=r"hashlearn\.data\.DataSet is deprecated.*use hashlearn\.data\.CatalogEntry"
    ):
        assert hl.data.DataSet is hl.data.CatalogEntry
    assert isinstance(hl.data.DATA_SETS["digits"], hl.data.CatalogEntry)
    assert not hasattr(hl.data, "DataSets")


def test_old_spellings_of_attributes():
    entry, made = hl.data.DATA_SETS["digits"], synthetic.gaussian_classes(10)
    with pytest.warns(FutureWarning, match="'licence' of CatalogEntry is deprecated.*use 'license'") as caught:
        assert entry.licence == entry.license
    with pytest.warns(FutureWarning, match="'centres' of GaussianClasses is deprecated.*use 'centers'"):
        assert made.centres is made.centers
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("read", [coco.coco, nuswide.nuswide])
def test_the_old_spelling_of_drop_unlabeled(read, tmp_path):
    with (
        pytest.warns(FutureWarning, match="'drop_unlabelled' of .* is deprecated.*use 'drop_unlabeled'"),
        pytest.raises(hl.data.DatasetMissing),
    ):
        read(tmp_path, drop_unlabelled=False)


def test_json_of_a_data_set_has_both_spellings(capsys):
    assert main(["data", "info", "mnist", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["license"] == facts["licence"] == hl.data.DATA_SETS["mnist"].license
