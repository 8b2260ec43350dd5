"""Tables of the documentation that a script makes from results."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_smoothing_is_that_of_its_results():
    script = ROOT / "benches" / "smoothing_sweep.py"
    made = subprocess.run([sys.executable, script, "table"], check=True, capture_output=True, text=True, encoding="utf-8").stdout
    assert made.count("\n") == 10, "two lines of the head and eight sets"
    assert made in (ROOT / "docs" / "generalisation.md").read_text(encoding="utf-8")
