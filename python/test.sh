#!/usr/bin/env bash
# Builds the wheel, installs it in a fresh environment and tests it there; arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")"
out="$(cd .. && pwd)/target/python"
rm -rf "$out" && mkdir -p "$out"
python3 -m venv "$out/build" && "$out/build/bin/pip" install -q 'maturin>=1.14,<2'
"$out/build/bin/maturin" build --release --quiet --out "$out/wheels"
ls -l "$out"/wheels
python3 -m venv "$out/bare" && "$out/bare/bin/pip" install -q "$out"/wheels/*.whl
# Without scikit-learn and data frames the package works as well.
"$out/bare/bin/pip" install -q pytest
"$out/bare/bin/python" -m pytest -q -p no:cacheprovider tests/test_rows.py tests/test_manifolds.py
"$out/bare/bin/pip" install -q mypy pandas polars scikit-learn typing_extensions
"$out/bare/bin/python" -m pytest -q -p no:cacheprovider "$@"
"$out/bare/bin/python" -m mypy --cache-dir "$out/mypy" lib/manifusion tests/typed.py
