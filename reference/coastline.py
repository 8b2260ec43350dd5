"""Make crates/manifusion-plot/assets/coastline.bin, the coastlines that the maps embed.

    python3 reference/coastline.py SOURCE

SOURCE is Natural Earth's 1:110m coastline or land outline (public domain, https://www.naturalearthdata.com), either as GeoJSON
(ne_110m_coastline.geojson or ne_110m_land.geojson) or as CSV with the columns segment,lat,lon. Only the standard library is used.

Steps: split where an edge crosses the antimeridian; drop the artificial edges along lon = ±180 and lat = -90 that close
Antarctica; simplify each line by Douglas-Peucker with 0.1 degree tolerance (in degrees of a great circle); round to 0.01 degree.

Format, little endian: u16 number of lines; then for each line u16 number of points n and n times (i16 lon, i16 lat), in
units of 0.01 degree.
"""

import csv
import json
import math
import struct
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "crates" / "manifusion-plot" / "assets" / "coastline.bin"
TOLERANCE_DEG = 0.1


def read_csv(path):
    """Lines of (lon, lat) from segment,lat,lon."""
    lines = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            lines.setdefault(row["segment"], []).append((float(row["lon"]), float(row["lat"])))
    return list(lines.values())


def read_geojson(path):
    """Lines of (lon, lat) from every LineString, Polygon and their Multi forms."""
    lines = []

    def walk(coordinates):
        if isinstance(coordinates[0][0], (int, float)):
            lines.append([(p[0], p[1]) for p in coordinates])
        else:
            for part in coordinates:
                walk(part)

    for feature in json.loads(Path(path).read_text())["features"]:
        walk(feature["geometry"]["coordinates"])
    return lines


def artificial(a, b):
    """An edge that no coast has: across or along the antimeridian, or along the pole."""
    across = abs(a[0] - b[0]) > 180
    along = all(abs(p[0]) > 179.99 for p in (a, b)) or all(p[1] < -89.9 for p in (a, b))
    return across or along


def split(line):
    """The parts of a line between artificial edges."""
    parts = [[line[0]]]
    for a, b in zip(line, line[1:]):
        if artificial(a, b):
            parts.append([])
        parts[-1].append(b)
    return [part for part in parts if len(part) > 1]


def distance_to_segment(p, a, b):
    """Degrees, in the plane with longitudes shortened by the cosine of the latitude."""
    shrink = math.cos(math.radians(p[1]))
    px, py = (p[0] - a[0]) * shrink, p[1] - a[1]
    bx, by = (b[0] - a[0]) * shrink, b[1] - a[1]
    length2 = bx * bx + by * by
    t = 0.0 if length2 == 0.0 else max(0.0, min(1.0, (px * bx + py * by) / length2))
    return math.hypot(px - t * bx, py - t * by)


def simplify(line):
    """Douglas-Peucker."""
    keep = {0, len(line) - 1}
    stack = [(0, len(line) - 1)]
    while stack:
        first, last = stack.pop()
        inner = range(first + 1, last)
        if not inner:
            continue
        far = max(inner, key=lambda i: distance_to_segment(line[i], line[first], line[last]))
        if distance_to_segment(line[far], line[first], line[last]) > TOLERANCE_DEG:
            keep.add(far)
            stack += [(first, far), (far, last)]
    return [line[i] for i in sorted(keep)]


def main():
    source = sys.argv[1]
    raw = read_csv(source) if source.endswith(".csv") else read_geojson(source)
    lines = [simplify(part) for line in raw for part in split(line)]
    out = struct.pack("<H", len(lines))
    for line in lines:
        out += struct.pack("<H", len(line))
        for lon, lat in line:
            out += struct.pack("<hh", round(lon * 100), round(lat * 100))
    TARGET.write_bytes(out)
    print(f"{TARGET.name}: {len(lines)} lines, {sum(map(len, lines))} points, {len(out)} bytes")


main()
