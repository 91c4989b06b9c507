"""Builds the Python package with CMake: `pip install .`.  The library is inside the one extension module.

TERCEL_IMAGES=ON in the environment builds ImageDecoder in, which needs the headers that tools/setup installs.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = pathlib.Path(__file__).resolve().parent


def version():
    header = (SOURCE / "include/tercel/tercel.h").read_text()
    return ".".join(re.search(rf"#define TERCEL_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        build = pathlib.Path(self.build_temp).resolve() / "cmake"
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DTERCEL_CLI=OFF", "-DTERCEL_WERROR=OFF",
                   f"-DTERCEL_IMAGES={os.environ.get('TERCEL_IMAGES', 'OFF')}", f"-DPython3_EXECUTABLE={sys.executable}"]
        subprocess.run(["cmake", "-S", str(SOURCE), "-B", str(build), *options], check=True)
        subprocess.run(["cmake", "--build", str(build), "-j", str(len(os.sched_getaffinity(0))), "--target", "tercel_extension"],
                       check=True)
        target = pathlib.Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(build / "python/tercel/_tercel.abi3.so", target)


setup(
    version=version(),
    ext_modules=[Extension("tercel._tercel", [], py_limited_api=True)],
    cmdclass={"build_ext": CMakeBuild},
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
