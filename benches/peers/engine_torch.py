"""The training step in PyTorch, in two forms: tangents stacked into one batch and torch.compile (its fastest), and the
paper's reverse over reverse. Usage: engine_torch.py DIRECTORY {stacked,paper}; requests on standard input."""

import sys
from pathlib import Path

import numpy as np
import torch

import engine_cases as cases

torch.set_num_threads(2)


def activate(name, z):
    """The activation and its derivative."""
    if name == "sine":
        return torch.sin(z), torch.cos(z)
    sigmoid = torch.sigmoid(z)
    return z * sigmoid, sigmoid * (1 + z * (1 - sigmoid))


def stacked_field(case, params, x, s, e):
    """a (n x m) and (da/dx)e (k x n x m) with value and tangents in one matrix."""
    n, k = x.shape[0], e.shape[1]
    value = torch.cat([x, s], 1)
    if k == 0:
        for l, (w, b) in enumerate(params):
            value = torch.addmm(b, value, w)
            if l + 1 < len(params):
                value = activate(case.activation, value)[0]
        return value, None
    tangents = torch.cat([e.transpose(0, 1), torch.zeros(k, n, 1)], 2)
    rows = torch.cat([value, tangents.reshape(k * n, -1)], 0)
    for l, (w, b) in enumerate(params):
        z = rows @ w
        value, tangents = z[:n] + b, z[n:].reshape(k, n, -1)
        if l + 1 < len(params):
            value, slope = activate(case.activation, value)
            rows = torch.cat([value, (slope * tangents).reshape(k * n, -1)], 0)
    return value, tangents


def plain_field(case, params, x, s):
    h = torch.cat([x, s], 1)
    for l, (w, b) in enumerate(params):
        h = torch.addmm(b, h, w)
        if l + 1 < len(params):
            h = torch.sin(h) if case.activation == "sine" else torch.nn.functional.silu(h)
    return h


def square_of_tangent(case, x, a):
    xs, vs = x.reshape(case.rows, -1, case.block), a.reshape(case.rows, -1, case.block)
    return 0.5 * (vs - xs * (xs * vs).sum(-1, keepdim=True)).square().sum((1, 2))


class Engine:
    def __init__(self, form, case, directory):
        self.name, self.case, self.form = f"torch-{form}", case, form
        params, *data = cases.load(case, directory)
        self.x, self.s, self.e, self.h = [torch.from_numpy(d) for d in data]
        self.params = [tuple(torch.nn.Parameter(torch.from_numpy(p)) for p in layer) for layer in params]
        self.flat = [p for layer in self.params for p in layer]
        self.adam = torch.optim.Adam(self.flat, lr=cases.LEARNING_RATE, fused=True)
        torch._dynamo.reset()
        objective = self.stacked if form == "stacked" else self.paper
        self.objective = torch.compile(objective, fullgraph=True) if form == "stacked" else objective
        for _ in range(3):
            self.loss()

    def stacked(self, params, x, s, e, h):
        case = self.case
        a, tangents = stacked_field(case, params, x, s, e)
        if case.work == "denoising":
            return 0.5 * (a - h).square().sum(1).mean(), a
        per_row = (tangents * e.transpose(0, 1)).sum((0, 2)) + (h * a).sum(1)
        if case.work == "implicit":
            per_row = per_row + square_of_tangent(case, x, a)
        return per_row.mean(), a

    def paper(self, params, x, s, e, h):
        case = self.case
        if case.work == "denoising":
            a = plain_field(case, params, x, s)
            return 0.5 * (a - h).square().sum(1).mean(), a
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            a = plain_field(case, params, x, s)
            div = 0
            for j in range(case.per_row):
                keep = case.work == "implicit" or j + 1 < case.per_row
                (row,) = torch.autograd.grad((a * e[:, j]).sum(), x, create_graph=case.work == "implicit", retain_graph=keep)
                div = div + (row * e[:, j]).sum(1)
            per_row = div + (h * a).sum(1)
            if case.work == "implicit":
                per_row = per_row + square_of_tangent(case, x, a)
        return per_row.mean(), a

    def evaluate(self):
        return self.objective(self.params, self.x, self.s, self.e, self.h)

    def loss(self):
        if self.case.work == "forward":
            with torch.no_grad():
                return self.evaluate()[0].item()
        return self.evaluate()[0].item()

    def step(self):
        if self.case.work == "forward":
            with torch.no_grad():
                self.evaluate()
            return
        self.adam.zero_grad(set_to_none=True)
        self.evaluate()[0].backward()
        self.adam.step()

    def check(self):
        if self.case.work == "forward":
            with torch.no_grad():
                loss, a = self.evaluate()
            return loss.item(), a.detach().numpy().ravel()
        self.adam.zero_grad(set_to_none=True)
        loss, _ = self.evaluate()
        loss.backward()
        return loss.item(), np.concatenate([p.grad.numpy().ravel() for p in self.flat])

    def wait(self):
        pass


if __name__ == "__main__":
    directory, form = Path(sys.argv[1]), sys.argv[2]
    cases.serve(lambda case, path: Engine(form, case, path), directory)
