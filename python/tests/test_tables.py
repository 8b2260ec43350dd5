"""Tables of other libraries: Arrow streams and plain columns."""

import numpy as np
import pytest

from manifusion import KernelMixture, MixtureVMF


@pytest.fixture(scope="module")
def model(places):
    return MixtureVMF("sphere:2", form="latlon").fit({"lat": places[:, 0], "lon": places[:, 1]})


def test_plain_columns(model, places):
    expected = MixtureVMF("sphere:2", form="latlon").fit(places).score_samples(places)
    assert (model.score_samples(places) == expected).all()
    lists = {"lon": places[:, 1].tolist(), "lat": places[:, 0].tolist()}
    assert (model.score_samples(lists) == expected).all()
    assert list(model.feature_names_in_) == ["lat", "lon"]
    with pytest.raises(ValueError, match=r"'lat' has shape \(2, 1\)"):
        model.score_samples({"lat": [[1.0], [2.0]], "lon": [1.0, 2.0]})


class Stream:
    """Nothing but ``__arrow_c_stream__``."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_arrow_tables(model, places):
    pa = pytest.importorskip("pyarrow")
    expected = model.score_samples(places)
    table = pa.table({"lat": places[:, 0], "station": ["a"] * len(places), "lon": places[:, 1]})
    pieces = pa.concat_tables([table[:50], table[50:]])
    for given in (table, pieces, Stream(pieces), table.to_batches()[0]):
        assert (model.score_samples(given) == expected).all()
    assert (model.score_samples(table[7:20]) == expected[7:20]).all()
    single = pa.table({name: table[name].cast(pa.float32()) for name in ("lat", "lon")})
    np.testing.assert_allclose(model.score_samples(single), expected, atol=1e-3)
    whole = pa.table({"lat": pa.array([10, 20], pa.int16()), "lon": pa.array([5, 6], pa.uint8())})
    same = model.score_samples([[10.0, 5.0], [20.0, 6.0]])
    assert (model.score_samples(whole) == same).all()


def test_what_an_arrow_table_lacks_is_said(model):
    pa = pytest.importorskip("pyarrow")
    missing = pa.table({"lat": [1.0, None], "lon": [1.0, 2.0]})
    with pytest.raises(ValueError, match="row 1|line 1"):
        model.score_samples(missing)
    with pytest.raises(ValueError, match="lat"):
        model.score_samples(pa.table({"lat": ["1.0", "2.0"], "lon": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="a table with columns is needed"):
        model.score_samples(pa.chunked_array([[1.0, 2.0]]))
    with pytest.raises(ValueError, match="0 sample"):
        model.score_samples(missing[:0])


def test_polars_through_the_stream(model, places):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"lat": places[:, 0], "lon": places[:, 1]})
    assert (model.score_samples(Stream(frame)) == model.score_samples(places)).all()
    fitted = KernelMixture("sphere:2").fit(Stream(frame))
    assert fitted.form_ == "latlon"
