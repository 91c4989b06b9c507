"""The library stays small."""
import subprocess

import pytest


def test_stripped_library_is_under_6_mb(build, tmp_path):
    if "CMAKE_BUILD_TYPE:STRING=Release" not in (build / "CMakeCache.txt").read_text():
        pytest.skip("sizes are those of a release build")
    stripped = tmp_path / "libtercel.so"
    subprocess.run(["strip", "-o", stripped, build / "libtercel.so"], check=True)
    assert stripped.stat().st_size < 6_000_000
