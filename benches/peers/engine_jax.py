"""The training step in JAX: jit of linearize and a loop over the tangents (its fastest form), Adam by hand in the same jit.
Usage: engine_jax.py DIRECTORY; requests on standard input."""

import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import engine_cases as cases


def field(case, params, x, s):
    h = jnp.concatenate([x, s], 1)
    for l, (w, b) in enumerate(params):
        h = h @ w + b
        if l + 1 < len(params):
            h = jnp.sin(h) if case.activation == "sine" else jax.nn.silu(h)
    return h


def objective(case, params, x, s, e, h):
    if case.work == "denoising":
        a = field(case, params, x, s)
        return 0.5 * jnp.square(a - h).sum(1).mean(), a
    a, push = jax.linearize(lambda x: field(case, params, x, s), x)
    per_row = (h * a).sum(1)
    for j in range(case.per_row):
        per_row = per_row + (push(e[:, j]) * e[:, j]).sum(1)
    if case.work == "implicit":
        xs, vs = x.reshape(case.rows, -1, case.block), a.reshape(case.rows, -1, case.block)
        per_row = per_row + 0.5 * jnp.square(vs - xs * (xs * vs).sum(-1, keepdims=True)).sum((1, 2))
    return per_row.mean(), a


def adam(params, grads, moments, t):
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], grads)
    rate, unbias = cases.LEARNING_RATE / (1 - 0.9**t), 1 / (1 - 0.999**t)
    update = lambda p, m, v: p - rate * m / (jnp.sqrt(v * unbias) + 1e-8)
    return jax.tree.map(update, params, first, second), (first, second)


class Engine:
    name = "jax"

    def __init__(self, case, directory):
        self.case = case
        params, *data = cases.load(case, directory)
        self.params = jax.tree.map(jnp.asarray, params)
        self.data = [jnp.asarray(d) for d in data]
        zeros = lambda: jax.tree.map(jnp.zeros_like, self.params)
        self.moments, self.t, self.result = (zeros(), zeros()), 0, None
        self.value = jax.jit(partial(objective, case))
        self.gradient = jax.jit(jax.value_and_grad(partial(objective, case), has_aux=True))
        def step(params, moments, t, *data):
            (loss, _), grads = jax.value_and_grad(partial(objective, case), has_aux=True)(params, *data)
            return *adam(params, grads, moments, t), loss
        self.train = jax.jit(step, donate_argnums=(0, 1))

    def loss(self):
        return float(self.value(self.params, *self.data)[0])

    def step(self):
        if self.case.work == "forward":
            self.result = self.value(self.params, *self.data)
            self.result[0].block_until_ready()
            return
        self.t += 1
        self.params, self.moments, self.result = self.train(self.params, self.moments, float(self.t), *self.data)

    def check(self):
        if self.case.work == "forward":
            loss, a = self.value(self.params, *self.data)
            return float(loss), np.asarray(a).ravel()
        (loss, _), grads = self.gradient(self.params, *self.data)
        return float(loss), np.concatenate([np.asarray(g).ravel() for layer in grads for g in layer])

    def wait(self):
        if self.result is not None:
            jax.block_until_ready(self.result)


if __name__ == "__main__":
    cases.serve(Engine, Path(sys.argv[1]))
