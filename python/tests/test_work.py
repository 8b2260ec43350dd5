"""Long work: Ctrl-C, the interpreter's lock, progress, forks."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import manifusion
from manifusion import KernelMixture, RiemannianDiffusion


# Every method that trains for a time or a number of steps.
TRAINED = [made for made in manifusion.ESTIMATORS.values() if "minutes" in made().get_params()]


def interrupt_after(seconds):
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill sends no SIGINT there")
def test_an_interrupt_leaves_a_usable_model(cloud):
    model = RiemannianDiffusion("sphere:2", steps=1_000_000)
    # Past what is fitted before the first step.
    interrupt_after(6.0)
    began = time.monotonic()
    with pytest.warns(RuntimeWarning, match="stopped"):
        model.fit(cloud)
    assert time.monotonic() - began < 7.5
    assert model.stopped_ and 0 < model.outcome_["steps"] < 1_000_000
    assert np.isfinite(model.score_samples(cloud[:5])).all()


def _interrupted(model, X, wait):
    """Fits until a training has gone on for `wait` seconds; seconds from Ctrl-C to the end."""
    sent = []

    class Shown:
        """In the place of the line of progress: knows when the training has begun."""

        began = None

        def __call__(self, line, share):
            if line.startswith("training") and self.began is None:
                self.began = time.monotonic()
            if self.began and not sent and time.monotonic() > self.began + wait:
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

    model._shown = lambda: contextlib.nullcontext(Shown())
    with pytest.warns(RuntimeWarning, match="stopped"):
        model.fit(X)
    return time.monotonic() - sent[0]


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill sends no SIGINT there")
@pytest.mark.parametrize("made", TRAINED, ids=lambda made: made.__name__)
def test_a_training_ends_within_a_second_of_an_interrupt(made):
    # Enough rows that validations and the weights of a stack take longer than that.
    centres = manifusion.Manifold("sphere:2").random(40, seed=1)
    X = manifusion.Manifold("sphere:2").noise(np.repeat(centres, 100, axis=0), 0.01, seed=2)
    model = made("sphere:2", minutes=5)
    took = _interrupted(model, X, 2.0)
    assert model.stopped_ and model.outcome_["steps"] > 0
    assert np.isfinite(model.score_samples(X[:5])).all()
    assert took < 1.0, took


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill sends no SIGINT there")
def test_an_interrupt_of_a_score_is_a_keyboard_interrupt(cloud):
    model = RiemannianDiffusion("sphere:2", steps=2).fit(cloud)
    many = manifusion.Manifold("sphere:2").random(400_000)
    interrupt_after(0.5)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.score_samples(many)
    assert time.monotonic() - began < 2.5


def _longest_pause(work):
    """Seconds that `work` takes, and the longest time in which another thread did not go on."""
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.01)

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.monotonic()
    work()
    ended = time.monotonic()
    done.set()
    thread.join()
    inside = [began, *(t for t in ticks if began <= t <= ended), ended]
    return ended - began, np.diff(inside).max()


def test_other_threads_go_on_while_a_model_is_fitted(cloud):
    model = RiemannianDiffusion("sphere:2", minutes=0.05)
    took, pause = _longest_pause(lambda: model.fit(cloud))
    assert took > 0.5 and pause < 0.5


def test_other_threads_go_on_while_rows_are_scored(cloud):
    model = RiemannianDiffusion("sphere:2", steps=20, threads=1).fit(cloud)
    many = manifusion.Manifold("sphere:2").random(6000)
    took, pause = _longest_pause(lambda: model.score_samples(many))
    assert took > 0.5 and pause < 0.5 * took, (took, pause)


def test_progress_is_shown_and_erased(cloud, capsys):
    model = RiemannianDiffusion("sphere:2", minutes=0.05, progress=True).fit(cloud)
    shown = capsys.readouterr().err
    assert "training: step" in shown and shown.endswith("\r")
    model.set_params(progress=False).score_samples(cloud)
    assert capsys.readouterr().err == ""


def _score(model, x, queue):
    queue.put(model.score_samples(x))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
def test_a_forked_process_has_threads_of_its_own(kernel, cloud):
    expected = kernel.score_samples(cloud)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_score, args=(kernel, cloud, queue))
    process.start()
    found = queue.get(timeout=60)
    process.join()
    assert (found == expected).all()


def test_models_are_used_from_several_threads(kernel, cloud):
    expected = kernel.score_samples(cloud)
    results = []
    workers = [
        threading.Thread(target=lambda: results.append(kernel.score_samples(cloud)))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4 and all((found == expected).all() for found in results)


def test_a_method_that_counts_nothing_can_be_fitted_in_one_thread(cloud):
    model = KernelMixture("sphere:2", threads=1).fit(cloud)
    assert np.isfinite(model.score_samples(cloud)).all()
