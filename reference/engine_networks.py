"""Loss and gradient of the paper's networks, by PyTorch's automatic differentiation in double precision.

Needs torch and numpy (benches/peers/requirements.txt): benches/peers/.venv/bin/python reference/engine_networks.py
Parameters, points and directions come from an integer hash that the Rust test repeats, so the file holds no weights:
number i of stream c is u(c, i) in [-1, 1), see `uniform`. The loss of a row is 1/2 |a|^2 + sum_j e_j . (da/dx) e_j, summed
over the rows; the derivative is taken by torch.func.jvp and the gradient by reverse mode over it. The divergence is
computed a second time by reverse over reverse and must agree.
"""

import json
import math
import platform
from pathlib import Path

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
GOLDEN = Path(__file__).resolve().parent.parent / "crates" / "manifusion" / "tests" / "golden"
RECORDED = 6  # rows whose values and tangents are in the file


def uniform(stream, count):
    """u(c, i): splitmix64's finaliser of i + 2^32 c, top 53 bits, scaled to [-1, 1)."""
    with np.errstate(over="ignore"):
        z = np.arange(count, dtype=np.uint64) + np.uint64(stream << 32)
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return torch.from_numpy((z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0)


def act(name, z):
    if name == "sine":
        return torch.sin(z)
    if name == "swish":
        return z * torch.sigmoid(z)
    if name == "tanh":
        return torch.tanh(z)
    return torch.nn.functional.softplus(z)


def frequencies(net):
    """The directions B of the Fourier features, features x m."""
    return 2 * uniform(4, net["fourier"] * net["dim"]).reshape(net["fourier"], net["dim"])


def features(net, x, s):
    """The inputs of the first layer: x, the time, damped Fourier features."""
    parts = [x]
    if net["time_pairs"] is None:
        parts.append(s)
    else:
        lam = torch.log(s / net["s_min"]) / math.log(net["t_end"] / net["s_min"])
        parts.append(2 * lam - 1)
        for i in range(net["time_pairs"]):
            omega = 2.0**i * math.pi / 2
            parts += [torch.sin(omega * lam), torch.cos(omega * lam)]
    if net["fourier"]:
        b = frequencies(net)
        damping = torch.exp(-0.5 * s * b.square().sum(1))
        parts += [torch.sin(x @ b.T) * damping, torch.cos(x @ b.T) * damping]
    return torch.cat(parts, 1)


def field(net, params, x, s):
    h = features(net, x, s)
    if net["actnorm"]:
        h = (h + params["actnorm.shift"]) * torch.exp(params["actnorm.log_scale"])
    for l in range(net["depth"]):
        z = h @ params[f"layers.{l}.weight"] + params[f"layers.{l}.bias"]
        h = act(net["activation"], z) + (h if net["residual"] and l > 0 else 0)
    last = net["depth"]
    out = h @ params[f"layers.{last}.weight"] + params[f"layers.{last}.bias"]
    if net["inverse_noise"]:
        out = out / torch.sqrt(-torch.expm1(-s))
    return out


def shapes(net):
    inputs = net["dim"] + (1 if net["time_pairs"] is None else 1 + 2 * net["time_pairs"]) + 2 * net["fourier"]
    out = {}
    if net["actnorm"]:
        out["actnorm.shift"], out["actnorm.log_scale"] = (1, inputs), (1, inputs)
    for l in range(net["depth"] + 1):
        rows = inputs if l == 0 else net["width"]
        columns = net["dim"] if l == net["depth"] else net["width"]
        out[f"layers.{l}.weight"], out[f"layers.{l}.bias"] = (rows, columns), (1, columns)
    return out


def row(net):
    params = {}
    for stream, (name, shape) in enumerate(shapes(net).items()):
        scale = 0.3 if name.startswith("actnorm") else shape[0] ** -0.5 if shape[0] > 1 else 0.1
        params[name] = (scale * uniform(10 + stream, shape[0] * shape[1]).reshape(shape)).requires_grad_(True)
    m, k, n = net["dim"], net["per_row"], net["rows"]
    x, e = uniform(1, n * m).reshape(n, m), uniform(3, n * k * m).reshape(n, k, m)
    s = 0.6 + 0.5 * uniform(2, n).reshape(n, 1)
    a, loss = field(net, params, x, s), 0
    jvp = []
    for j in range(k):
        tangent = torch.func.jvp(lambda x: field(net, params, x, s), (x,), (e[:, j],))[1]
        jvp.append(tangent)
        loss = loss + (tangent * e[:, j]).sum()
    # A second way to the divergence: reverse over reverse.
    free = x.clone().requires_grad_(True)
    value = field(net, params, free, s)
    for j in range(k):
        (pull,) = torch.autograd.grad((value * e[:, j]).sum(), free, retain_graph=True)
        assert torch.allclose((pull * e[:, j]).sum(1), (jvp[j] * e[:, j]).sum(1), rtol=1e-11, atol=1e-12)
    loss = loss + 0.5 * (a * a).sum()
    loss.backward()
    parts = []
    for stream, (name, p) in enumerate(params.items()):
        g = p.grad.reshape(-1)
        probe = uniform(100 + stream, g.numel())
        picks = [0, g.numel() // 3, g.numel() - 1]
        parts.append({"name": name, "norm": g.norm().item(), "probe": (g * probe).sum().item(), "picks": [[i, g[i].item()] for i in picks]})
    flat = lambda t: t.detach()[:RECORDED].reshape(-1).tolist()
    return {"net": net, "loss": loss.item(), "a": flat(a), "jvp": flat(torch.stack(jvp, 1)) if jvp else [], "gradient": parts}


def net(name, dim, depth, width, activation, per_row, **more):
    plain = {"actnorm": False, "residual": False, "time_pairs": None, "s_min": 1e-3, "t_end": 6.0, "inverse_noise": False, "fourier": 0, "rows": 6}
    return {"name": name, "dim": dim, "depth": depth, "width": width, "activation": activation, "per_row": per_row, **plain, **more}


NETS = [
    net("paper sphere", 3, 5, 512, "sine", 2),
    net("paper torus", 14, 4, 256, "swish", 7),
    net("paper hyperbolic", 3, 2, 512, "swish", 2, actnorm=True),
    net("paper orthogonal", 9, 4, 256, "swish", 3),
    net("tanh with everything", 3, 3, 40, "tanh", 2, actnorm=True, residual=True, time_pairs=3, inverse_noise=True),
    net("softplus", 2, 2, 33, "softplus", 1),
    # Enough rows for products of seven quarters in the reverse pass.
    net("paper sphere, many rows", 3, 5, 512, "sine", 2, rows=256),
    net("without tangents, many rows", 3, 3, 256, "swish", 0, rows=520, residual=True),
    net("Fourier features", 3, 3, 192, "swish", 3, rows=90, actnorm=True, time_pairs=2, inverse_noise=True, fourier=20),
]

if __name__ == "__main__":
    meta = {"script": "reference/engine_networks.py", "python": platform.python_version(),
            "packages": {"torch": torch.__version__, "numpy": np.__version__}, "precision": "f64, automatic differentiation"}
    rows = ",\n".join(json.dumps(row(n), separators=(",", ":")) for n in NETS)
    text = '{"meta": ' + json.dumps(meta) + ',\n"rows": [\n' + rows + "\n]}\n"
    json.loads(text)
    (GOLDEN / "engine_networks.json").write_text(text)
    print(f"engine_networks.json: {len(text) / 1000:.0f} kB")
