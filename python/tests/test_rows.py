import numpy as np
import pytest

import manifusion
from manifusion import KernelMixture


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_numbers_of_other_types(dtype, kernel, cloud):
    expected = kernel.score_samples(cloud)
    tolerance = 1e-9 if dtype == np.float64 else 2e-2 if dtype == np.float32 else 2.0
    found = kernel.score_samples(cloud.astype(dtype))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=tolerance)


def test_arrays_of_any_layout(kernel, cloud):
    expected = kernel.score_samples(cloud)
    wide = np.zeros((len(cloud), 6))
    wide[:, ::2] = cloud
    for same in (np.asfortranarray(cloud), wide[:, ::2], cloud[::-1][::-1], cloud.tolist()):
        assert (kernel.score_samples(same) == expected).all()
    read_only = cloud.copy()
    read_only.flags.writeable = False
    assert (kernel.score_samples(read_only) == expected).all()


def test_rows_come_back_in_their_form(places, cloud):
    model = KernelMixture("sphere:2", form="latlon").fit(places)
    assert model.form_ == "latlon" and model.n_features_in_ == 2
    drawn = model.sample(50)
    assert drawn.shape == (50, 2) and (np.abs(drawn[:, 0]) <= 90).all()
    # The same points in other coordinates are the same model.
    other = KernelMixture("sphere:2").fit(cloud)
    np.testing.assert_allclose(
        model.score_samples(places), other.score_samples(cloud), atol=1e-6
    )
    sphere = manifusion.Manifold("sphere:2")
    np.testing.assert_allclose(sphere.from_form(drawn, "latlon"), other.sample(50), atol=1e-9)


def test_pandas_columns_are_found_by_name(places):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"place": "x", "Longitude": places[:, 1], "depth": 1, "Latitude": places[:, 0]}
    )
    model = KernelMixture("sphere:2").fit(frame)
    assert model.form_ == "lonlat"
    assert any("read as lonlat" in remark for remark in model.remarks_)
    assert list(model.feature_names_in_) == list(frame.columns)
    expected = KernelMixture("sphere:2", form="latlon").fit(places).score_samples(places)
    np.testing.assert_allclose(model.score_samples(frame), expected)
    # Another order of columns is no other order of coordinates.
    turned = frame[["Latitude", "Longitude"]]
    np.testing.assert_allclose(model.score_samples(turned), expected)
    # Arrays have the form's order, as samples do.
    np.testing.assert_allclose(model.score_samples(places[:, ::-1]), expected)


def test_pandas_with_missing_numbers_names_the_row():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"lat": pd.array([1.5, None], dtype="Float64"), "lon": [2, 3]})
    with pytest.raises(ValueError, match="row 1: NaN is not a finite number"):
        KernelMixture("sphere:2").fit(frame)


def test_pandas_without_names_is_an_array(places):
    pd = pytest.importorskip("pandas")
    model = KernelMixture("sphere:2", form="latlon").fit(pd.DataFrame(places))
    assert not hasattr(model, "feature_names_in_")
    assert model.score_samples(places).shape == (300,)


def test_polars_columns_are_found_by_name(places):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"lat": places[:, 0], "name": ["a"] * 300, "lon": places[:, 1]})
    model = KernelMixture("sphere:2").fit(frame)
    assert model.form_ == "latlon"
    expected = KernelMixture("sphere:2", form="latlon").fit(places).score_samples(places)
    np.testing.assert_allclose(model.score_samples(frame), expected)
    with pytest.raises(ValueError, match="collect"):
        model.score_samples(frame.lazy())


def test_columns_can_be_chosen(places):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": places[:, 0], "b": places[:, 1], "c": 0.0})
    model = KernelMixture("sphere:2", form="latlon", columns=["a", "b"]).fit(frame)
    expected = KernelMixture("sphere:2", form="latlon").fit(places).score_samples(places)
    np.testing.assert_allclose(model.score_samples(frame), expected)


@pytest.mark.parametrize(
    ("spec", "form", "rows", "width"),
    [
        ("torus:2", "angles-deg", [[10.0, 20.0], [30.0, -40.0], [15.0, 25.0]], 2),
        ("so:3", "quaternion", [[1.0, 0, 0, 0], [0.8, 0.6, 0, 0], [0.6, 0, 0.8, 0]], 4),
        ("hyperbolic:2", "poincare", [[0.1, 0.2], [0.3, -0.1], [0.0, 0.0]], 2),
        ("sphere:2*torus:1", "latlon*angles-deg", [[1.0, 2, 3], [4, 5, 6], [7, 8, 9]], 3),
    ],
)
def test_forms_of_other_manifolds(spec, form, rows, width):
    model = KernelMixture(spec, form=form).fit(np.repeat(rows, 10, axis=0))
    assert model.form_ == form
    assert model.sample(3).shape == (3, width)
    assert np.isfinite(model.score_samples(rows)).all()


def test_an_array_as_wide_as_the_manifold_is_in_its_own_coordinates():
    x = manifusion.Manifold("torus:2").random(40)
    assert KernelMixture("torus:2").fit(x).form_ == "ambient"


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (np.zeros(3), r"2D array.*shape \(3,\)"),
        (np.zeros((2, 2, 3)), r"3D array.*\(2, 2, 3\)"),
        (np.zeros((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.zeros((5, 0)), r"0 feature\(s\) \(shape=\(5, 0\)\)"),
        (np.zeros((5, 3), complex), "Complex"),
        (np.full((5, 3), "a"), "dtype <U1"),
        (np.full((30, 3), 1.0), "row 0: "),
        (np.full((30, 3), np.nan), "NaN is not a finite number"),
    ],
)
def test_rows_that_are_none_are_refused_with_their_numbers(rows, problem):
    with pytest.raises(ValueError, match=problem):
        KernelMixture("sphere:2").fit(rows)


def test_messages_speak_of_parameters():
    angles = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    with pytest.raises(ValueError, match="angles-deg or angles-rad.*say which with form"):
        KernelMixture("torus:2").fit(angles)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(90 * angles, columns=["lat", "lon"])
    remarks = KernelMixture("torus:2").fit(frame).remarks_
    assert any("; manifold sphere:2 suits such data" in remark for remark in remarks)


def test_another_number_of_columns_is_refused(kernel):
    with pytest.raises(ValueError, match="X has 2 features, but KernelMixture is expecting 3"):
        kernel.score_samples(np.zeros((4, 2)))
