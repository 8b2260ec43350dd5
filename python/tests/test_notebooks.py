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
