"""The notebooks in ``examples/`` run from start to end, with real data and without."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ["earthquakes", "protein_torsions"]


def test_these_are_all():
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", ["real", "generated"])
def test_a_notebook_runs(name, data, monkeypatch, tmp_path):
    if data == "generated":
        monkeypatch.setenv("MANIFUSION_DATA", str(tmp_path))
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": EXAMPLES}}
    )
    client.execute()
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("image/png" in out.get("data", {}) for out in outputs)


def test_a_notebook_shows_the_progress_while_it_runs():
    code = (
        "from manifusion import Manifold, RiemannianDiffusion\n"
        "X = Manifold('sphere:2').random(5000)\n"
        # A budget of time: steps would be done before the second look on a fast machine.
        "RiemannianDiffusion('sphere:2', minutes=0.05, progress=True).fit(X)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    lines = []

    class Front(nbclient.NotebookClient):
        """In the place of a browser: takes what the kernel sends, when it is sent."""

        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] == "stream":
                lines.append(msg["content"]["text"])
            return super().process_message(msg, cell, cell_index)

    Front(notebook, timeout=180, kernel_name="python3").execute()
    shown = [line for line in lines if "█" in line and "training: step" in line]
    # Each message writes over the last, and the last one erases the line.
    assert len(set(shown)) >= 2 and all(line.startswith("\r") for line in shown)
    assert lines[-1].endswith("\r") and not lines[-1].split("\r")[-2].strip()
