"""An installed tercel is found by pkg-config and by CMake, and a program built either way runs."""
import os
import subprocess

import pytest

CONSUMER = r"""
#include <stdio.h>
#include <tercel/tercel.h>
int main(void) { return puts(tercel_version()) < 0; }
"""
CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(consumer C)
find_package(tercel 0.1 REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared PRIVATE tercel::tercel)
add_executable(static main.c)
target_link_libraries(static PRIVATE tercel::tercel_static)
"""


def output(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, text=True, stdout=subprocess.PIPE, **options).stdout


@pytest.fixture(scope="module")
def installed(build, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    output("cmake", "--install", build, "--prefix", prefix)
    return prefix


@pytest.fixture
def consumer(tmp_path):
    (tmp_path / "main.c").write_text(CONSUMER)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    return tmp_path


@pytest.mark.parametrize("static", [False, True])
def test_pkg_config(installed, consumer, static):
    folder = next(installed.rglob("tercel.pc")).parent
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    flags = output("pkg-config", "--cflags", "--libs", *(["--static"] if static else []), "tercel", env=environment).split()
    if static:
        flags = ["-static", *flags]
    output("cc", "-std=c17", "main.c", "-o", "program", *flags, cwd=consumer)
    library = next(installed.rglob("libtercel.so")).parent
    assert output(consumer / "program", env={**os.environ, "LD_LIBRARY_PATH": str(library)}).startswith("0.")


def test_cmake_package(installed, consumer):
    output("cmake", "-S", consumer, "-B", consumer / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    output("cmake", "--build", consumer / "build")
    assert output(consumer / "build/shared") == output(consumer / "build/static")


def test_command_is_installed_and_says_the_library_version(installed):
    assert "0.1.0" in output(installed / "bin/tercel", "version")
