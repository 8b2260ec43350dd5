"use strict";
// The interactive view of a report: a globe, a torus, a disk, a plane or a ball of rotations on one canvas.
(() => {
  const view = JSON.parse(document.getElementById("view-data").textContent);
  const canvas = document.getElementById("view");
  if (!canvas) return;
  const readout = document.getElementById("readout");
  const paint = canvas.getContext("2d");

  // ---- data -------------------------------------------------------------------------------------------------------------
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const shorts = (text) => new Int16Array(bytes(text).buffer);
  const palette = bytes(view.palette);
  const data = view.data ? shorts(view.data) : new Int16Array(0);
  const samples = view.samples ? shorts(view.samples) : new Int16Array(0);
  const width = view.point_width;
  const MAX = 32767;
  const turn = 2 * Math.PI;

  /** A grid of values with its joined ends: nx, ny, values (NaN where there is none), wrap. */
  const decodeGrid = (g) => {
    const raw = new Uint16Array(bytes(g.values).buffer);
    const values = Float32Array.from(raw, (q) => (q === 65535 ? NaN : g.low + ((g.high - g.low) * q) / 65534));
    return { ...g, values };
  };
  let grid = view.grid ? decodeGrid(view.grid) : null;

  const cell = (g, ix, iy) => {
    const { nx, ny } = g;
    if (g.wrap === "sphere") {
      if (iy < 0) { iy = -1 - iy; ix += nx / 2; }
      if (iy >= ny) { iy = 2 * ny - 1 - iy; ix += nx / 2; }
      ix = ((ix % nx) + nx) % nx;
    } else if (g.wrap === "disk") {
      if (iy < 0) { iy = -1 - iy; ix += nx / 2; }
      iy = Math.min(ny - 1, iy);
      ix = ((ix % nx) + nx) % nx;
    } else if (g.wrap === "torus") {
      ix = ((ix % nx) + nx) % nx;
      iy = ((iy % ny) + ny) % ny;
    } else {
      ix = Math.min(nx - 1, Math.max(0, ix));
      iy = Math.min(ny - 1, Math.max(0, iy));
    }
    return g.values[iy * nx + ix];
  };
  /** Bilinear value at fractions of the two axes in [0, 1]. */
  const lookUp = (g, fx, fy) => {
    const px = fx * g.nx - 0.5, py = fy * g.ny - 0.5;
    const ix = Math.floor(px), iy = Math.floor(py);
    const tx = px - ix, ty = py - iy;
    if (ix >= 0 && iy >= 0 && ix + 1 < g.nx && iy + 1 < g.ny) {
      const k = iy * g.nx + ix, v = g.values;
      return (v[k] * (1 - tx) + v[k + 1] * tx) * (1 - ty) + (v[k + g.nx] * (1 - tx) + v[k + g.nx + 1] * tx) * ty;
    }
    return (cell(g, ix, iy) * (1 - tx) + cell(g, ix + 1, iy) * tx) * (1 - ty) +
      (cell(g, ix, iy + 1) * (1 - tx) + cell(g, ix + 1, iy + 1) * tx) * ty;
  };
  let scale = view.scale;
  const shade = (v) => {
    const t = (v - scale.low) / (scale.high - scale.low || 1);
    return 3 * Math.round(255 * Math.min(1, Math.max(0, t)));
  };
  const colour = (v, light = 1) => {
    const k = shade(v);
    return `rgb(${palette[k] * light | 0},${palette[k + 1] * light | 0},${palette[k + 2] * light | 0})`;
  };

  // ---- state --------------------------------------------------------------------------------------------------------------
  const show = { density: true, data: true, samples: false, coast: true };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const ink = () => (dark.matches ? "#e8eaed" : "#1b1b1f");
  const empty = () => (dark.matches ? "#2a2d33" : "#e6e8ec");
  const DATA = "#ff5a40", SAMPLES = "#ffffff", SAMPLES_DARK = "#4aa3ff";
  let side = 0, ratio = 1, zoom = 1;
  // While the view moves it is drawn coarsely, and finely once it rests.
  let moving = false, rest = 0;

  const number = (v, digits) => v.toFixed(digits).replace("-", "−").replace(/^−(0(\.0*)?)$/, "$1");
  const valueText = (v) => {
    if (Number.isNaN(v)) return "outside of the evaluated region";
    if (view.histogram) return `density of samples ${number(v, 2)} × uniform`;
    return `log-density ${number(v, 3)} (density ${Math.exp(v).toPrecision(3)}), ${view.measure}`;
  };

  // Rotation of the world into the view: rows are the view's right, up and towards the viewer.
  const fromAngles = (lon, lat) => {
    const [cl, sl, cp, sp] = [Math.cos(lon), Math.sin(lon), Math.cos(lat), Math.sin(lat)];
    return [-sl, cl, 0, -sp * cl, -sp * sl, cp, cp * cl, cp * sl, sp];
  };
  let R = fromAngles(0, 0);
  const times = (a, b) => {
    const c = new Array(9).fill(0);
    for (let i = 0; i < 3; i++) for (let j = 0; j < 3; j++) for (let k = 0; k < 3; k++) c[3 * i + j] += a[3 * i + k] * b[3 * k + j];
    return c;
  };
  /** Turns the view by dx to the right and dy downwards, in radians; then removes rounding. */
  const rotate = (dx, dy) => {
    const [ca, sa, cb, sb] = [Math.cos(dx), Math.sin(dx), Math.cos(dy), Math.sin(dy)];
    R = times([1, 0, 0, 0, cb, -sb, 0, sb, cb], times([ca, 0, sa, 0, 1, 0, -sa, 0, ca], R));
    const scaleRow = (i) => {
      const n = Math.hypot(R[i], R[i + 1], R[i + 2]);
      for (let k = 0; k < 3; k++) R[i + k] /= n;
    };
    scaleRow(6);
    const d = R[0] * R[6] + R[1] * R[7] + R[2] * R[8];
    for (let k = 0; k < 3; k++) R[k] -= d * R[6 + k];
    scaleRow(0);
    R[3] = R[7] * R[2] - R[8] * R[1];
    R[4] = R[8] * R[0] - R[6] * R[2];
    R[5] = R[6] * R[1] - R[7] * R[0];
  };

  const dots = (places, fill, size) => {
    paint.fillStyle = fill;
    const s = size * ratio;
    if (moving || places.length > 8000) {
      // Squares, several times as fast, where the difference is not seen.
      for (let i = 0; i < places.length; i += 2) paint.fillRect(places[i] - s / 2, places[i + 1] - s / 2, s, s);
      return;
    }
    paint.beginPath();
    for (let i = 0; i < places.length; i += 2) {
      paint.moveTo(places[i] + s / 2, places[i + 1]);
      paint.arc(places[i], places[i + 1], s / 2, 0, turn);
    }
    paint.fill();
  };
  const dotSize = (n) => Math.max(1.6, Math.min(4, 110 / Math.sqrt(n + 1)));

  /** Fills a square of pixels with colours of values; `value(x, y)` gets places in [−1, 1], y upwards. */
  let buffer = null;
  const raster = (value, light) => {
    const n = Math.min(side, moving ? 240 : 560);
    if (!buffer || buffer.width !== n) {
      buffer = document.createElement("canvas");
      buffer.width = buffer.height = n;
    }
    const context = buffer.getContext("2d");
    const image = context.createImageData(n, n);
    for (let row = 0; row < n; row++) {
      const y = 1 - (2 * row + 1) / n;
      for (let column = 0; column < n; column++) {
        const x = (2 * column + 1) / n - 1;
        const v = value(x, y);
        if (v === undefined) continue;
        const k = Number.isNaN(v) ? 0 : shade(v);
        const l = light ? light(x, y) : 1;
        const at = 4 * (row * n + column);
        image.data[at] = palette[k] * l;
        image.data[at + 1] = palette[k + 1] * l;
        image.data[at + 2] = palette[k + 2] * l;
        image.data[at + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
    paint.imageSmoothingEnabled = true;
    paint.drawImage(buffer, 0, 0, side, side);
  };

  // ---- the globe --------------------------------------------------------------------------------------------------------
  const globe = () => {
    const vectors = (raw) => {
      const out = new Float32Array((raw.length / 2) * 3);
      for (let i = 0, k = 0; i < raw.length; i += 2, k += 3) {
        const lon = (raw[i] / MAX) * Math.PI, lat = (raw[i + 1] / MAX) * Math.PI / 2;
        out[k] = Math.cos(lat) * Math.cos(lon);
        out[k + 1] = Math.cos(lat) * Math.sin(lon);
        out[k + 2] = Math.sin(lat);
      }
      return out;
    };
    const sets = { data: vectors(data), samples: vectors(samples) };
    const coast = (view.coast || []).map((line) => {
      const raw = shorts(line);
      return vectors(raw.map((v, i) => (i % 2 ? (v / 9000) * MAX : (v / 18000) * MAX)));
    });
    const radius = () => 0.48 * zoom;
    const graticule = [];
    for (let lat = -60; lat <= 60; lat += 30) {
      const line = [];
      for (let lon = -180; lon <= 180; lon += 4) line.push((lon / 180) * MAX, (lat / 90) * MAX);
      graticule.push(vectors(line));
    }
    for (let lon = -180; lon < 180; lon += 30) {
      const line = [];
      for (let lat = -90; lat <= 90; lat += 4) line.push((lon / 180) * MAX, (lat / 90) * MAX);
      graticule.push(vectors(line));
    }
    const world = (x, y) => {
      const r = radius() * 2;
      const [u, v] = [x / r, y / r];
      const w = 1 - u * u - v * v;
      if (w < 0) return null;
      const z = Math.sqrt(w);
      const p = [0, 1, 2].map((k) => R[k] * u + R[3 + k] * v + R[6 + k] * z);
      return [Math.atan2(p[1], p[0]), Math.asin(Math.max(-1, Math.min(1, p[2])))];
    };
    const lines = (set, stroke, thick) => {
      const r = radius() * side, c = side / 2;
      paint.strokeStyle = stroke;
      paint.lineWidth = thick * ratio;
      paint.beginPath();
      for (const line of set) {
        let open = false;
        for (let i = 0; i < line.length; i += 3) {
          const z = R[6] * line[i] + R[7] * line[i + 1] + R[8] * line[i + 2];
          if (z < 0) { open = false; continue; }
          const x = c + r * (R[0] * line[i] + R[1] * line[i + 1] + R[2] * line[i + 2]);
          const y = c - r * (R[3] * line[i] + R[4] * line[i + 1] + R[5] * line[i + 2]);
          if (open) paint.lineTo(x, y); else paint.moveTo(x, y);
          open = true;
        }
      }
      paint.stroke();
    };
    const points = (set, fill) => {
      const r = radius() * side, c = side / 2;
      const places = [];
      for (let i = 0; i < set.length; i += 3) {
        const z = R[6] * set[i] + R[7] * set[i + 1] + R[8] * set[i + 2];
        if (z <= 0) continue;
        places.push(c + r * (R[0] * set[i] + R[1] * set[i + 1] + R[2] * set[i + 2]),
          c - r * (R[3] * set[i] + R[4] * set[i + 1] + R[5] * set[i + 2]));
      }
      const size = dotSize(set.length / 3);
      dots(places, "rgba(0,0,0,.55)", size + 1);
      dots(places, fill, size);
    };
    const degrees = ([lon, lat]) => {
      const d = [lat, lon].map((v) => (v * 180) / Math.PI);
      if (!view.geographic) return `latitude ${number(d[0], 1)}°, longitude ${number(d[1], 1)}°`;
      return `${number(Math.abs(d[0]), 1)}°${d[0] < 0 ? "S" : "N"} ${number(Math.abs(d[1]), 1)}°${d[1] < 0 ? "W" : "E"}`;
    };
    const at = ([lon, lat]) => lookUp(grid, lon / turn + 0.5, lat / Math.PI + 0.5);
    return {
      draw() {
        const r = radius() * 2;
        if (show.density && grid) {
          raster((x, y) => {
            const u = x / r, v = y / r, w = 1 - u * u - v * v;
            if (w < 0) return undefined;
            const z = Math.sqrt(w);
            const px = R[0] * u + R[3] * v + R[6] * z, py = R[1] * u + R[4] * v + R[7] * z, pz = R[2] * u + R[5] * v + R[8] * z;
            return lookUp(grid, Math.atan2(py, px) / turn + 0.5, Math.asin(pz < -1 ? -1 : pz > 1 ? 1 : pz) / Math.PI + 0.5);
          }, (x, y) => 0.72 + 0.28 * Math.sqrt(Math.max(0, 1 - (x * x + y * y) / (r * r))));
        } else {
          paint.fillStyle = empty();
          paint.beginPath();
          paint.arc(side / 2, side / 2, radius() * side, 0, turn);
          paint.fill();
        }
        const line = show.density ? "#ffffff" : ink();
        paint.globalAlpha = 0.25;
        lines(graticule, line, 0.7);
        paint.globalAlpha = 0.9;
        if (show.coast) lines(coast, line, 1);
        paint.globalAlpha = 1;
        if (show.samples) points(sets.samples, show.density ? SAMPLES : SAMPLES_DARK);
        if (show.data) points(sets.data, DATA);
        paint.strokeStyle = ink();
        paint.lineWidth = 1.5 * ratio;
        paint.beginPath();
        paint.arc(side / 2, side / 2, radius() * side, 0, turn);
        paint.stroke();
      },
      move: (dx, dy) => rotate(dx / radius(), dy / radius()),
      step: 0.12,
      centre: () => degrees(world(0, 0)),
      hover(x, y) {
        const place = world(x, y);
        return place && `${degrees(place)}: ${valueText(at(place))}`;
      },
      reset() { R = fromAngles(0, 0.35); zoom = 1; },
    };
  };

  // ---- the torus ----------------------------------------------------------------------------------------------------------
  const torus = () => {
    const NA = 180, NB = 90, BIG = 0.68, SMALL = 0.3;
    const dim = width;
    let pair = [0, 1];
    const names = view.axis_names;
    const selects = ["first-angle", "second-angle"].map((id) => document.getElementById(id));
    const place = (a, b) => {
      const ring = BIG + SMALL * Math.cos(b);
      return [ring * Math.cos(a), ring * Math.sin(a), SMALL * Math.sin(b)];
    };
    const seen = (p) => [0, 3, 6].map((k) => R[k] * p[0] + R[k + 1] * p[1] + R[k + 2] * p[2]);
    /** Counts of the samples' pairs of angles against uniform, when no grid of the density exists. */
    const histogram = () => {
      const n = 48, values = new Float32Array(n * n), set = samples.length ? samples : data;
      for (let i = 0; i < set.length; i += dim) {
        const bin = (v) => Math.min(n - 1, Math.floor((v / MAX / 2 + 0.5) * n));
        values[bin(set[i + pair[1]]) * n + bin(set[i + pair[0]])] += (n * n * dim) / set.length;
      }
      const g = { nx: n, ny: n, wrap: "torus", values };
      const smooth = new Float32Array(n * n);
      for (let y = 0; y < n; y++) for (let x = 0; x < n; x++) {
        let s = 0;
        for (let j = -1; j <= 1; j++) for (let i = -1; i <= 1; i++) s += cell(g, x + i, y + j) * (2 - Math.abs(i)) * (2 - Math.abs(j)) / 16;
        smooth[y * n + x] = s;
      }
      grid = { ...g, values: smooth };
      scale = { low: 0, high: smooth.reduce((m, v) => Math.max(m, v), 0) };
    };
    let buckets = {};
    const sort = () => {
      if (view.histogram) histogram();
      buckets = {};
      for (const [name, set] of [["data", data], ["samples", samples]]) {
        buckets[name] = Array.from({ length: NA * NB }, () => []);
        for (let i = 0; i < set.length; i += dim) {
          const a = (set[i + pair[0]] / MAX) * Math.PI, b = (set[i + pair[1]] / MAX) * Math.PI;
          const ia = Math.min(NA - 1, Math.floor((a / turn + 0.5) * NA)), ib = Math.min(NB - 1, Math.floor((b / turn + 0.5) * NB));
          buckets[name][ib * NA + ia].push(...place(a, b));
        }
      }
    };
    sort();
    for (const [i, select] of selects.entries()) {
      if (!select) continue;
      select.addEventListener("change", () => { pair[i] = Number(select.value); sort(); redraw(); });
    }
    const extent = () => 0.48 * zoom / (BIG + SMALL);
    let quads = [];
    const visible = () => {
      const corners = [], step = moving ? 3 : 1;
      const na = NA / step, nb = NB / step;
      const scalePx = extent() * side, c = side / 2;
      for (let j = 0; j <= nb; j++) for (let i = 0; i <= na; i++) {
        const v = seen(place((i / na - 0.5) * turn, (j / nb - 0.5) * turn));
        corners.push([c + scalePx * v[0], c - scalePx * v[1], v[2]]);
      }
      quads = [];
      for (let j = 0; j < nb; j++) for (let i = 0; i < na; i++) {
        const k = j * (na + 1) + i;
        const q = [corners[k], corners[k + 1], corners[k + na + 2], corners[k + na + 1]];
        // Outward orientation: (∂a × ∂b) points outwards, so a front quad turns counterclockwise seen with y upwards.
        const cross = (q[2][0] - q[0][0]) * (q[3][1] - q[1][1]) - (q[2][1] - q[0][1]) * (q[3][0] - q[1][0]);
        if (cross < 0) quads.push({ i: i * step, j: j * step, step, q, fx: (i + 0.5) / na, fy: (j + 0.5) / nb, depth: q[0][2] + q[1][2] + q[2][2] + q[3][2] });
      }
      quads.sort((s, t) => s.depth - t.depth);
    };
    const degrees = (a, b) => `${names[pair[0]]} = ${number((a * 180) / Math.PI, 0)}°, ${names[pair[1]]} = ${number((b * 180) / Math.PI, 0)}°`;
    return {
      draw() {
        visible();
        const sizes = { data: dotSize(data.length / dim), samples: dotSize(samples.length / dim) };
        const scalePx = extent() * side, c = side / 2;
        for (const { i, j, step, q, fx, fy } of quads) {
          const v = grid ? lookUp(grid, fx, fy) : NaN;
          const b = (fy - 0.5) * turn, a = (fx - 0.5) * turn;
          const normal = R[6] * Math.cos(b) * Math.cos(a) + R[7] * Math.cos(b) * Math.sin(a) + R[8] * Math.sin(b);
          const fill = show.density && grid ? colour(v, 0.7 + 0.3 * Math.max(0, normal)) : empty();
          paint.fillStyle = fill;
          paint.strokeStyle = !show.density && (i % 15 === 0 || j % 15 === 0) ? ink() : fill;
          paint.lineWidth = !show.density ? 0.3 * ratio : ratio;
          paint.beginPath();
          paint.moveTo(q[0][0], q[0][1]);
          for (const p of [q[1], q[2], q[3]]) paint.lineTo(p[0], p[1]);
          paint.closePath();
          paint.fill();
          paint.stroke();
          for (const [name, fillDot] of [["samples", show.density ? SAMPLES : SAMPLES_DARK], ["data", DATA]]) {
            if (!show[name]) continue;
            const places = [];
            for (let m = 0; m < step * step; m++) {
              const list = buckets[name][(j + Math.floor(m / step)) * NA + i + (m % step)];
              for (let k = 0; k < list.length; k += 3) {
                const s = seen([list[k], list[k + 1], list[k + 2]]);
                places.push(c + scalePx * s[0], c - scalePx * s[1]);
              }
            }
            if (places.length) dots(places, fillDot, sizes[name]);
          }
        }
      },
      move: (dx, dy) => rotate(dx / 0.35, dy / 0.35),
      step: 0.05,
      centre: () => `view from ${[6, 7, 8].map((k) => number(R[k], 2)).join(", ")}`,
      hover(x, y) {
        const [px, py] = [((x + 1) / 2) * side, ((1 - y) / 2) * side];
        for (let n = quads.length - 1; n >= 0; n--) {
          const { q, fx, fy } = quads[n];
          let inside = true;
          for (let k = 0; k < 4 && inside; k++) {
            const [s, t] = [q[k], q[(k + 1) % 4]];
            inside = (t[0] - s[0]) * (py - s[1]) - (t[1] - s[1]) * (px - s[0]) <= 0;
          }
          if (!inside) continue;
          const text = degrees((fx - 0.5) * turn, (fy - 0.5) * turn);
          return grid ? `${text}: ${valueText(lookUp(grid, fx, fy))}` : text;
        }
        return null;
      },
      reset() { R = fromAngles(0.6, 0.75); zoom = 1; },
    };
  };

  // ---- the disk -------------------------------------------------------------------------------------------------------------
  const disk = () => {
    let c = [0, 0];
    const radius = () => 0.48 * zoom;
    /** (z + w)/(1 + w̄ z), the isometry that takes 0 to w. */
    const moebius = ([zx, zy], [wx, wy]) => {
      const [nx, ny] = [zx + wx, zy + wy];
      const [dx, dy] = [1 + wx * zx + wy * zy, wx * zy - wy * zx];
      const d = dx * dx + dy * dy;
      return [(nx * dx + ny * dy) / d, (ny * dx - nx * dy) / d];
    };
    const under = (x, y) => {
      const r = radius() * 2;
      const z = [x / r, y / r];
      return z[0] * z[0] + z[1] * z[1] < 1 ? moebius(z, c) : null;
    };
    const points = (set, fill) => {
      const places = [], r = radius() * side;
      for (let i = 0; i < set.length; i += 2) {
        const z = moebius([set[i] / MAX, set[i + 1] / MAX], [-c[0], -c[1]]);
        places.push(side / 2 + r * z[0], side / 2 - r * z[1]);
      }
      const size = dotSize(set.length / 2);
      dots(places, "rgba(0,0,0,.55)", size + 1);
      dots(places, fill, size);
    };
    const distance = (u, v) => 2 * Math.atanh(Math.min(Math.hypot(u, v), 1 - 1e-9)) / Math.sqrt(-view.curvature);
    const text = ([u, v]) => {
      return `r = ${number(distance(u, v), 2)}, θ = ${number((Math.atan2(v, u) * 180) / Math.PI, 0)}°`;
    };
    const value = ([u, v]) => {
      const r = distance(u, v) / view.range[3];
      return r > 1 ? NaN : lookUp(grid, Math.atan2(v, u) / turn + 0.5, r);
    };
    return {
      draw() {
        if (show.density && grid) {
          raster((x, y) => {
            const z = under(x, y);
            return z ? value(z) : undefined;
          });
        } else {
          paint.fillStyle = empty();
          paint.beginPath();
          paint.arc(side / 2, side / 2, radius() * side, 0, turn);
          paint.fill();
        }
        if (show.samples) points(samples, show.density ? SAMPLES : SAMPLES_DARK);
        if (show.data) points(data, DATA);
        paint.strokeStyle = ink();
        paint.lineWidth = 1.5 * ratio;
        paint.beginPath();
        paint.arc(side / 2, side / 2, radius() * side, 0, turn);
        paint.stroke();
      },
      move(dx, dy) {
        const r = radius();
        const step = [-dx / r, dy / r].map((v) => Math.max(-0.5, Math.min(0.5, v)));
        c = moebius(step, c);
        const n = Math.hypot(...c);
        if (n > 0.99999) c = c.map((v) => (v / n) * 0.99999);
      },
      step: 0.08,
      centre: () => text(c),
      hover(x, y) {
        const z = under(x, y);
        return z && `${text(z)}: ${valueText(value(z))}`;
      },
      reset() { c = [0, 0]; zoom = 1; },
    };
  };

  // ---- the plane ------------------------------------------------------------------------------------------------------------
  const plane = () => {
    const [x0, x1, y0, y1] = view.range;
    const half = Math.max(x1 - x0, y1 - y0) / 2;
    let c = [(x0 + x1) / 2, (y0 + y1) / 2];
    const under = (x, y) => [c[0] + (x * half) / zoom, c[1] + (y * half) / zoom];
    const inside = ([x, y]) => x >= x0 && x <= x1 && y >= y0 && y <= y1;
    const value = ([x, y]) => lookUp(grid, (x - x0) / (x1 - x0), (y - y0) / (y1 - y0));
    const points = (set, fill) => {
      const places = [];
      for (let i = 0; i < set.length; i += 2) {
        const x = x0 + (set[i] / MAX / 2 + 0.5) * (x1 - x0), y = y0 + (set[i + 1] / MAX / 2 + 0.5) * (y1 - y0);
        places.push((side / 2) * (1 + ((x - c[0]) * zoom) / half), (side / 2) * (1 - ((y - c[1]) * zoom) / half));
      }
      dots(places, fill, dotSize(set.length / 2));
    };
    const text = ([x, y]) => `${view.axis_names[0]} = ${number(x, 3)}, ${view.axis_names[1]} = ${number(y, 3)}`;
    return {
      draw() {
        if (show.density && grid) {
          raster((x, y) => {
            const p = under(x, y);
            return inside(p) ? value(p) : undefined;
          });
        }
        if (show.samples) points(samples, show.density ? SAMPLES : SAMPLES_DARK);
        if (show.data) points(data, DATA);
      },
      move(dx, dy) { c = [c[0] - (2 * dx * half) / zoom, c[1] + (2 * dy * half) / zoom]; },
      step: 0.05,
      centre: () => text(c),
      hover(x, y) {
        const p = under(x, y);
        return inside(p) ? `${text(p)}: ${valueText(value(p))}` : null;
      },
      reset() { c = [(x0 + x1) / 2, (y0 + y1) / 2]; zoom = 1; },
    };
  };

  // ---- the ball of rotations --------------------------------------------------------------------------------------------------
  const ball = () => {
    const logs = { data: view.data_log ? decodeGrid(view.data_log).values : null, samples: view.samples_log ? decodeGrid(view.samples_log).values : null };
    const radius = () => 0.48 * zoom;
    const circles = [0, 1, 2].map((axis) => {
      const line = [];
      for (let i = 0; i <= 72; i++) {
        const p = [0, 0, 0];
        p[(axis + 1) % 3] = Math.cos((i / 72) * turn);
        p[(axis + 2) % 3] = Math.sin((i / 72) * turn);
        line.push(p);
      }
      return line;
    });
    let drawn = [];
    const seen = (p) => [0, 3, 6].map((k) => R[k] * p[0] + R[k + 1] * p[1] + R[k + 2] * p[2]);
    return {
      draw() {
        const r = radius() * side, c = side / 2;
        paint.fillStyle = empty();
        paint.beginPath();
        paint.arc(c, c, r, 0, turn);
        paint.fill();
        paint.strokeStyle = ink();
        paint.globalAlpha = 0.35;
        paint.lineWidth = ratio;
        for (const line of circles) {
          paint.beginPath();
          for (const p of line) { const v = seen(p); paint.lineTo(c + r * v[0], c - r * v[1]); }
          paint.stroke();
        }
        drawn = [];
        for (const [name, set, fill] of [["samples", samples, SAMPLES_DARK], ["data", data, DATA]]) {
          if (!show[name]) continue;
          const size = dotSize(set.length / 3);
          for (let i = 0, n = 0; i < set.length; i += 3, n++) {
            const p = [set[i] / MAX, set[i + 1] / MAX, set[i + 2] / MAX];
            const v = seen(p);
            const value = logs[name] ? logs[name][n] : NaN;
            drawn.push([c + r * v[0], c - r * v[1], v[2], p, value, name]);
            paint.globalAlpha = 0.45 + 0.5 * (v[2] + 1) / 2;
            paint.fillStyle = show.density && !Number.isNaN(value) ? colour(value) : fill;
            const s = size * ratio * (0.8 + 0.4 * (v[2] + 1) / 2);
            paint.fillRect(c + r * v[0] - s / 2, c - r * v[1] - s / 2, s, s);
          }
        }
        paint.globalAlpha = 1;
        paint.strokeStyle = ink();
        paint.lineWidth = 1.5 * ratio;
        paint.beginPath();
        paint.arc(c, c, r, 0, turn);
        paint.stroke();
      },
      move: (dx, dy) => rotate(dx / radius(), dy / radius()),
      step: 0.06,
      centre: () => `view from ${[6, 7, 8].map((k) => number(R[k], 2)).join(", ")}`,
      hover(x, y) {
        const [px, py] = [((x + 1) / 2) * side, ((1 - y) / 2) * side];
        let best = null, least = (9 * ratio) ** 2;
        for (const d of drawn) {
          const away = (d[0] - px) ** 2 + (d[1] - py) ** 2 - 4 * ratio * d[2];
          if (away < least) { least = away; best = d; }
        }
        if (!best) return null;
        const [, , , p, value, name] = best;
        const n = Math.hypot(...p);
        const axis = p.map((v) => number(n > 0 ? v / n : 0, 2)).join(", ");
        const density = Number.isNaN(value) ? "" : `: ${valueText(value)}`;
        return `${name}, axis (${axis}), angle ${number(n * 180, 1)}°${density}`;
      },
      reset() { R = fromAngles(0.6, 0.4); zoom = 1; },
    };
  };

  // ---- one canvas, whichever view -----------------------------------------------------------------------------------------
  const scene = { globe, torus, disk, plane, ball }[view.kind]();
  let pending = false;
  const redraw = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      paint.clearRect(0, 0, side, side);
      scene.draw();
      canvas.dataset.centre = scene.centre();
      canvas.dataset.zoom = zoom.toFixed(3);
      if (!document.documentElement.dataset.readyMs) document.documentElement.dataset.readyMs = performance.now().toFixed(0);
    });
  };
  const redrawMoving = () => {
    moving = true;
    clearTimeout(rest);
    rest = setTimeout(() => { moving = false; redraw(); }, 150);
    redraw();
  };
  const resize = () => {
    ratio = Math.min(2, window.devicePixelRatio || 1);
    side = Math.max(64, Math.round(canvas.clientWidth * ratio));
    canvas.width = canvas.height = side;
    redrawMoving();
  };
  const say = (text) => { readout.textContent = text || "Move over the picture to read values."; };
  const zoomBy = (factor) => { zoom = Math.min(12, Math.max(0.5, zoom * factor)); redrawMoving(); };
  const sayCentre = () => say(scene.hover(0, 0) || scene.centre());

  let last = null;
  const touches = new Map();
  canvas.addEventListener("pointerdown", (e) => {
    canvas.setPointerCapture(e.pointerId);
    touches.set(e.pointerId, [e.clientX, e.clientY]);
    last = [e.clientX, e.clientY];
    canvas.focus({ preventScroll: true });
  });
  const spread = () => {
    const [a, b] = [...touches.values()];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  };
  canvas.addEventListener("pointermove", (e) => {
    const box = canvas.getBoundingClientRect();
    if (touches.size === 2 && touches.has(e.pointerId)) {
      const before = spread();
      touches.set(e.pointerId, [e.clientX, e.clientY]);
      zoomBy(spread() / before);
      return;
    }
    if (last && touches.has(e.pointerId)) {
      touches.set(e.pointerId, [e.clientX, e.clientY]);
      scene.move((e.clientX - last[0]) / box.width, (e.clientY - last[1]) / box.width);
      last = [e.clientX, e.clientY];
      redrawMoving();
    }
    say(scene.hover((2 * (e.clientX - box.left)) / box.width - 1, 1 - (2 * (e.clientY - box.top)) / box.height));
  });
  const release = (e) => { touches.delete(e.pointerId); last = null; };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", (e) => {
    if (document.activeElement !== canvas) return;
    e.preventDefault();
    zoomBy(Math.exp(-e.deltaY / 500));
  }, { passive: false });
  canvas.addEventListener("keydown", (e) => {
    const s = scene.step;
    const moves = { ArrowLeft: [s, 0], ArrowRight: [-s, 0], ArrowUp: [0, s], ArrowDown: [0, -s] };
    if (moves[e.key]) scene.move(...moves[e.key].map((v) => v * 0.5));
    else if (e.key === "+" || e.key === "=") zoomBy(1.2);
    else if (e.key === "-" || e.key === "_") zoomBy(1 / 1.2);
    else if (e.key === "0" || e.key === "Home") scene.reset();
    else return;
    e.preventDefault();
    redrawMoving();
    sayCentre();
  });
  for (const [id, act] of [["zoom-in", () => zoomBy(1.2)], ["zoom-out", () => zoomBy(1 / 1.2)], ["reset", () => { scene.reset(); redraw(); }]]) {
    document.getElementById(id).addEventListener("click", act);
  }
  for (const box of document.querySelectorAll("input[data-layer]")) {
    show[box.dataset.layer] = box.checked;
    box.addEventListener("change", () => { show[box.dataset.layer] = box.checked; redraw(); });
  }
  dark.addEventListener("change", redraw);
  window.addEventListener("resize", resize);
  scene.reset();
  say("");
  resize();
})();
