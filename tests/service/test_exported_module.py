"""The JavaScript that ``hl.export`` writes, in a browser; tests/exporting runs it in Node."""

import base64

import explorer_box
import numpy as np
import pytest

import hashlearn as hl

SCRIPT = """
    const [module, rows, done] = arguments;
    import("data:text/javascript;base64," + module).then(({ encode, hamming }) => {
        const codes = rows.map((row) => [...encode(row)]);
        done([codes, codes.map((code) => hamming(code, codes[0]))]);
    }).catch((error) => done([String(error), []]));
"""


@pytest.mark.slow
def test_codes_of_a_browser(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=100)
    X = rng.normal(size=(100, 10)) + 2 * y[:, None]
    hasher = hl.JoinedHasher([hl.GSDHP(9, random_state=0), hl.ITQ(4, random_state=0)]).fit(X, y)
    hl.export(hasher, tmp_path / "hasher.mjs", to="js")
    module = base64.b64encode((tmp_path / "hasher.mjs").read_bytes()).decode()
    with explorer_box.browser(tmp_path / "profile", "about:blank") as page:
        page.driver.get("about:blank")  # the page that a browser starts with may not import modules
        codes, distances = page.driver.execute_async_script(SCRIPT, module, X.tolist())
    np.testing.assert_array_equal(codes, hasher.encode(X))
    np.testing.assert_array_equal(distances, hl.codes.hamming_distances(hasher.encode(X), hasher.encode(X[:1]))[:, 0])
