import json

import numpy as np
import pytest

from manifusion import KernelMixture, Manifold


@pytest.fixture(scope="module")
def model(places):
    return KernelMixture("sphere:2", form="latlon").fit(places)


def test_a_picture_is_png_bytes_that_notebooks_show(model, tmp_path):
    picture = model.plot(tmp_path / "a.png", width=600, evaluations=800)
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture._repr_png_() == picture == (tmp_path / "a.png").read_bytes()
    assert int.from_bytes(picture[16:20], "big") == 600
    model.plot(tmp_path / "a.svg", width=600, evaluations=800)
    assert (tmp_path / "a.svg").read_text() == picture.svg
    with pytest.raises(ValueError, match=r"a\.gif.*\.png or \.svg"):
        model.plot(tmp_path / "a.gif")


def test_coastlines_rows_and_kinds(model, places):
    def drawn(**options):
        return model.plot(width=600, evaluations=800, **options).svg

    assert len(drawn()) > len(drawn(coastlines=False)) + 1000
    assert drawn(X=places) != drawn()
    assert drawn(kind="orthographic") != drawn()
    with pytest.raises(ValueError, match="nonsense"):
        drawn(kind="nonsense")


def test_the_report_is_one_page(model, tmp_path):
    page = model.to_html(tmp_path / "report.html")
    assert page.startswith("<!") and "kernel mixture on sphere:2" in page
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


def test_grids_and_regions(model):
    grid = model.grid(2000)
    assert grid["log_density"].shape == (len(grid["y"]), len(grid["x"]))
    at = np.unravel_index(grid["log_density"].argmax(), grid["log_density"].shape)
    place = [[grid["y"][at[0]], grid["x"][at[1]]]]
    np.testing.assert_allclose(model.score_samples(place), grid["log_density"].max())
    regions = json.loads(model.to_geojson(2000))
    shares = [f["properties"].get("share") for f in regions["features"]]
    assert regions["type"] == "FeatureCollection" and {0.5, 0.9, 0.95} <= set(shares)


def test_a_manifold_without_a_grid_says_so():
    x = Manifold("sphere:3").random(40)
    with pytest.raises(ValueError, match="sphere:3"):
        KernelMixture("sphere:3").fit(x).grid()
