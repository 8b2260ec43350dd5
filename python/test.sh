#!/usr/bin/env bash
# Builds the wheel, installs it in a fresh environment and tests it there; arguments go to pytest.
# RAY=1 installs Ray as well (240 MB), so that its test is not skipped.
set -euo pipefail
cd "$(dirname "$0")"
out="$(cd .. && pwd)/target/python"
rm -rf "$out" && mkdir -p "$out"
python3 -m venv "$out/build" && "$out/build/bin/pip" install -q 'maturin>=1.14,<2'
"$out/build/bin/maturin" build --release --quiet --out "$out/wheels"
wheel="$(echo "$out"/wheels/*.whl)"
ls -l "$wheel"
# One wheel for users without Rust: abi3, manylinux, under 25 MB.
case "$(uname -s) $wheel" in
    Linux*-abi3-manylinux*.whl | Darwin*-abi3-*.whl) ;;
    *) echo "$wheel is not the wheel that users need" >&2 && exit 1 ;;
esac
test "$(wc -c <"$wheel")" -lt 25000000
python3 -m venv "$out/bare" && "$out/bare/bin/pip" install -q "$wheel" pytest
# Without scikit-learn, data frames and engines the package works as well.
"$out/bare/bin/python" -m pytest -q -p no:cacheprovider tests/test_rows.py tests/test_manifolds.py
"$out/bare/bin/pip" install -q "$wheel[test]" ${RAY:+'ray[data]'}
"$out/bare/bin/python" -m pytest -q -p no:cacheprovider --durations=10 "$@"
"$out/bare/bin/python" -m mypy --cache-dir "$out/mypy" lib/manifusion tests/typed.py
# The stub of the extension module has what the module has.
"$out/bare/bin/python" -m mypy.stubtest --mypy-config-file pyproject.toml manifusion._native
