"""Exact log-densities of a trained network on S² in PyTorch with torchdiffeq. Usage: likelihood_torch.py NETWORK POINTS;
requests on standard input: "solve {time,log-time} TOLERANCE BATCH" answers seconds, evaluations and the file of values."""

import json
import math
import struct
import sys
import time

import numpy as np
import torch
import torchdiffeq

torch.set_num_threads(2)


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    kinds = {"F32": np.float32, "F64": np.float64}
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            arrays[name] = np.frombuffer(data[first:last], kinds[entry["dtype"]]).reshape(entry["shape"])
    return arrays, json.loads(header["__metadata__"]["manifusion"])["config"]


class Network:
    """a(x, s) with the tangents of two directions stacked into one batch: the fastest form of engine_torch.py."""

    def __init__(self, path):
        arrays, self.config = read_safetensors(path)
        wanted = {"activation": "swish", "residual": False, "actnorm": False, "output_scale": "inverse_noise"}
        for key, value in wanted.items():
            if self.config[key] != value:
                sys.exit(f"this comparison knows {key} = {value}, not {self.config[key]}")
        self.directions = torch.from_numpy(arrays["fourier.directions"].copy())
        self.damping = 0.5 * self.directions.square().sum(1)
        count = self.config["depth"] + 1
        tensors = lambda l: [torch.from_numpy(arrays[f"weights.layers.{l}.{part}"].copy()) for part in ("weight", "bias")]
        self.layers = [tensors(l) for l in range(count)]

    def value_and_divergence(self, x, s):
        """Pa and its divergence on the sphere; x is n x 3 in f64, s one number."""
        n = x.shape[0]
        time_config = self.config["time"]
        low, high = math.log(time_config["s_min"]), math.log(time_config["t_end"])
        place = (torch.log(s) - low) / (high - low)
        turns = place * (0.5 * math.pi) * 2.0 ** torch.arange(time_config["pairs"], dtype=torch.float64)
        waves = torch.stack([torch.sin(turns), torch.cos(turns)], 1).reshape(-1)
        when = torch.cat([(2 * place - 1).reshape(1), waves]).expand(n, -1)
        # An orthonormal frame of the tangent plane.
        pole = torch.where(x[:, 2:].abs() < 0.9, torch.tensor([0.0, 0.0, 1.0], dtype=x.dtype), torch.tensor([1.0, 0.0, 0.0], dtype=x.dtype))
        first = torch.nn.functional.normalize(torch.linalg.cross(pole, x), dim=1)
        frame = torch.stack([first, torch.linalg.cross(x, first)])
        phase, fade = x @ self.directions.T, torch.exp(-s * self.damping)
        sin, cos = torch.sin(phase) * fade, torch.cos(phase) * fade
        turned = frame @ self.directions.T
        value = torch.cat([x, when, sin, cos], 1).float()
        still = torch.zeros(2, n, when.shape[1], dtype=x.dtype)
        tangents = torch.cat([frame, still, turned * cos, -turned * sin], 2).float()
        rows = torch.cat([value, tangents.reshape(2 * n, -1)], 0)
        for l, (w, b) in enumerate(self.layers):
            z = rows @ w
            value, tangents = z[:n] + b, z[n:].reshape(2, n, -1)
            if l + 1 < len(self.layers):
                sigmoid = torch.sigmoid(value)
                slope = sigmoid * (1 + value * (1 - sigmoid))
                rows = torch.cat([value * sigmoid, (slope * tangents).reshape(2 * n, -1)], 0)
        scale = torch.rsqrt(-torch.expm1(-s))
        a, jvp = scale * value.double(), scale * tangents.double()
        normal = (a * x).sum(1, keepdim=True)
        # The divergence of Pa = a - <a, x>x: that of a along the frame, less twice the normal part.
        divergence = (jvp * frame).sum((0, 2)) - 2 * normal[:, 0]
        return a - normal * x, divergence


class Solver:
    def __init__(self, network, x, compiled=True):
        self.network, self.x = network, torch.from_numpy(x)
        self.field = torch.compile(network.value_and_divergence, dynamic=False) if compiled else network.value_and_divergence

    def solve(self, clock, tolerance, batch):
        network, self.evaluations = self.network, 0
        s_min, t_end = network.config["time"]["s_min"], network.config["time"]["t_end"]

        def flow(u, state):
            self.evaluations += state.shape[0]
            s = torch.exp(u) if clock == "log-time" else u
            s = s.clamp(s_min, t_end)
            a, divergence = self.field(state[:, :3], s)
            out = -0.5 * torch.cat([a, divergence[:, None]], 1)
            return out * s if clock == "log-time" else out

        ends = torch.tensor([s_min, t_end], dtype=torch.float64)
        ends = torch.log(ends) if clock == "log-time" else ends
        found = []
        with torch.no_grad():
            for first in range(0, len(self.x), batch):
                x = self.x[first : first + batch]
                state = torch.cat([x, torch.zeros(len(x), 1, dtype=torch.float64)], 1)
                last = torchdiffeq.odeint(flow, state, ends, rtol=tolerance, atol=tolerance, method="dopri5")[-1]
                found.append(last[:, 3] - math.log(4 * math.pi))
        return torch.cat(found).numpy()


def main():
    network, points = sys.argv[1:]
    solver = Solver(Network(network), np.load(points))
    for line in sys.stdin:
        _, clock, tolerance, batch = line.split()
        start = time.perf_counter()
        values = solver.solve(clock, float(tolerance), int(batch))
        seconds = time.perf_counter() - start
        np.save(points + ".torch.npy", values)
        print(json.dumps({"seconds": seconds, "evaluations": solver.evaluations / len(values)}), flush=True)


main()
