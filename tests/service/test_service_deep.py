"""A collection whose hasher has an image backbone takes uploaded pictures as they are."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from service_box import client, error_of

from hashlearn import Collection
from hashlearn.service.served_collection import open_collection
from hashlearn.service.service import Service


@pytest.mark.slow
def test_pictures_go_through_the_backbone(tmp_path):
    pytest.importorskip("torch")
    from hashlearn.deep import DCH

    images = np.random.default_rng(0).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)
    y = np.arange(24) % 2
    images[y == 1, :16] = 0
    hasher = DCH(8, backbone="small_cnn", n_epochs=1, random_state=0).fit(images, y)
    with Collection.create(tmp_path / "deep", hasher) as made:
        made.add(images, payload=[{"label": str(label)} for label in y.tolist()])
    with client(Service([open_collection(str(tmp_path / "deep"))])) as http:
        (facts,) = http.get("/api/v1/collections").json()["collections"]
        assert facts["can"]["image"]
        assert not facts["can"]["vector"]
        stream = io.BytesIO()
        Image.fromarray(images[5]).save(stream, "PNG")
        api = "/api/v1/collections/deep"
        headers = {"Content-Type": "image/png"}
        response = http.post(f"{api}/search/image?k=3", content=stream.getvalue(), headers=headers)
        assert response.status_code == 200, response.text
        result = response.json()["results"][0]
        assert result["query"]["code"] == http.get(f"{api}/items/5").json()["code"]
        assert error_of(http.post(f"{api}/search", json={"vectors": [[1.0]]}), 400) == "bad_vector"
