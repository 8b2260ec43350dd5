"""Golden values of map projections, by PROJ through pyproj: crates/manifusion-plot/tests/golden/projections.json.

    pip install pyproj==3.7.2 && python3 reference/projections.py
"""

import json
from pathlib import Path

import pyproj

TARGET = Path(__file__).resolve().parent.parent / "crates" / "manifusion-plot" / "tests" / "golden" / "projections.json"
POINTS = [(0, 0), (30, 20), (-75, 45), (179, -60), (-120, 85), (10, -89), (90, 33.3), (-179.5, 2.5), (60, 67), (-45, -12.5)]
NAMES = {"mollweide": "+proj=moll", "robinson": "+proj=robin", "equirectangular": "+proj=eqc", "orthographic": "+proj=ortho"}


def main():
    rows = []
    for name, proj in NAMES.items():
        transform = pyproj.Proj(f"{proj} +R=1 +lon_0=0")
        for lon, lat in POINTS:
            if name == "orthographic" and abs(lon) > 90:
                continue  # behind the horizon
            x, y = transform(lon, lat)
            rows.append({"projection": name, "lon_deg": lon, "lat_deg": lat, "x": x, "y": y})
    meta = {"script": "reference/projections.py", "pyproj": pyproj.__version__, "proj": pyproj.proj_version_str}
    lines = ",\n".join(json.dumps(row) for row in rows)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text('{"meta": ' + json.dumps(meta) + ',\n"points": [\n' + lines + "\n]}\n")


main()
