"""Writes the binary files of crates/manifusion-io/tests/golden and prints the rotations of tests/forms.rs.

Made with numpy 2.4.6, pyarrow 26.0.1, scipy 1.17.1:  python3 reference/io_golden.py
"""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.spatial.transform import Rotation

GOLDEN = Path(__file__).resolve().parent.parent / "crates/manifusion-io/tests/golden"


def arrays():
    for name, kind, order in [("f4_big_fortran", ">f4", "F"), ("i2", "<i2", "C"), ("f8_fortran", "<f8", "F")]:
        np.save(GOLDEN / f"{name}.npy", np.array([[1, -2, 3], [4, 5, -6]], dtype=kind, order=order))
    np.save(GOLDEN / "one_dimension.npy", np.array([1.5, 2.5]))
    np.save(GOLDEN / "three_dimensions.npy", np.zeros((2, 2, 2)))
    np.save(GOLDEN / "complex.npy", np.zeros(2, dtype=complex))
    np.save(GOLDEN / "records.npy", np.zeros(2, dtype=[("a", "<f8"), ("b", "<i4")]))


def tables():
    table = pa.table(
        {
            "lat": pa.array([1.5, -20.25, 30.0], pa.float32()),
            "lon": pa.array([100.0, None, -5.5]),
            "n": pa.array([1, 2, 2**32 - 1], pa.uint32()),
            "who": ["a", "b", "a"],
            "list": [[1], [2], []],
        }
    )
    for compression in ["snappy", "zstd", "none", "gzip"]:
        pq.write_table(table, GOLDEN / f"{compression}.parquet", compression=compression)
    frame = pa.table({"lat": [1.5, -20.25, 30.0], "lon": [100.0, 0.5, -5.5], "who": ["a", "b", "a"]})
    pq.write_table(frame, GOLDEN / "row_groups.parquet", row_group_size=1, data_page_version="2.0")


def rotations():
    warnings.simplefilter("ignore")
    quaternions = [[1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5], [0, 0.6, 0, 0.8]]
    quaternions += [Rotation.random(random_state=i).as_quat(scalar_first=True) for i in range(3)]
    for q in quaternions:
        r = Rotation.from_quat(q, scalar_first=True)
        for values in [
            r.as_quat(canonical=True, scalar_first=True),
            r.as_matrix().ravel(),
            r.as_euler("ZXZ", degrees=True),
            r.as_rotvec(),
        ]:
            print([float(v) for v in values])


arrays()
tables()
rotations()
