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
    regions = json.loads(model.to_geojson(evaluations=2000))
    shares = [f["properties"].get("share") for f in regions["features"]]
    assert regions["type"] == "FeatureCollection" and {0.5, 0.9, 0.95} <= set(shares)


def test_a_manifold_without_a_grid_says_so():
    x = Manifold("sphere:3").random(40)
    with pytest.raises(ValueError, match="sphere:3"):
        KernelMixture("sphere:3").fit(x).grid()


def test_contours_are_arrays(model, tmp_path):
    grid = model.grid(20_000)
    found = model.contours(shares=[0.5, 0.9], evaluations=20_000)
    assert [entry["share"] for entry in found] == [0.5, 0.9]
    for entry in found:
        inside = grid["log_density"] > entry["log_density"]
        mass = (np.exp(grid["log_density"]) * grid["volume"])[inside].sum()
        assert abs(mass - entry["share"]) < 0.03
        assert all(line.shape[1] == 2 for line in entry["lines"])
        # Longitude, latitude: the density there is that of the contour, up to the grid, which a
        # peak of a few cells is too narrow for.
        log_p = model.score_samples(np.concatenate(entry["lines"])[::5, ::-1])
        assert np.abs(log_p - entry["log_density"]).mean() < 0.3
        assert all((ring[0] == ring[-1]).all() for ring in entry["rings"])
    level = found[0]["log_density"]
    same = model.contours([level], evaluations=20_000)[0]
    assert same["share"] is None and len(same["lines"]) == len(found[0]["lines"])
    with pytest.raises(ValueError, match="a share of 1.5 is not allowed"):
        model.contours(shares=[1.5])
    text = model.to_geojson(tmp_path / "regions.geojson", evaluations=2000)
    assert (tmp_path / "regions.geojson").read_text() == text


def test_contours_on_a_torus():
    x = Manifold("torus:2").random(200)
    found = KernelMixture("torus:2").fit(x).contours(shares=[0.5], evaluations=2000)
    assert found[0]["lines"] and found[0]["lines"][0].shape[1] == 2
