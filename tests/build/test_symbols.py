"""What the libraries show to the world: the functions of tercel.h, and nothing else."""
import re
import subprocess


def declared(source):
    text = (source / "include/tercel/tercel.h").read_text(encoding="utf-8")
    return set(re.findall(r"^TERCEL_API [^;(]*?\b(tercel_\w+)\(", text, re.MULTILINE))


def symbols(*arguments):
    lines = subprocess.run(["nm", "--defined-only", *map(str, arguments)], check=True, text=True, stdout=subprocess.PIPE)
    return {(fields[-1], fields[-2]) for fields in (line.split() for line in lines.stdout.splitlines()) if len(fields) == 3}


def test_shared_library_exports_the_header(source, build):
    exported = {name for name, _ in symbols("--dynamic", build / "libtercel.so")}
    assert exported == declared(source)


def test_static_library_keeps_to_its_prefix(build):
    """Whoever links it statically sees no name that could be theirs."""
    names = {name for name, kind in symbols(build / "libtercel.a") if kind.isupper()}
    assert names and not [name for name in names if not name.startswith("tercel_")]


def test_shared_library_needs_libc_and_libm_only(build):
    dynamic = subprocess.run(["readelf", "--dynamic", build / "libtercel.so"], check=True, text=True, stdout=subprocess.PIPE)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\.so", dynamic.stdout))
    assert needed <= {"libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}


def test_every_kernel_has_a_baseline_twin(build):
    """A kernel is compiled at every level: one that stands at a higher level only would leave older CPUs without it."""
    names = {name for name, kind in symbols(build / "libtercel.a") if kind == "T"}
    lonely = [name for name in names for level in ("_avx2", "_avx512")
              if name.endswith(level) and name.removesuffix(level) + "_baseline" not in names]
    assert not lonely


def test_shared_library_takes_only_exact_functions_of_libm(build):
    """Others pick their code by CPU, and their bits with it; tercel's own stand in src/base/mathd.h and the kernels' mathf.h."""
    imported = subprocess.run(["nm", "--dynamic", "--undefined-only", build / "libtercel.so"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
    names = {line.split()[-1].split("@")[0] for line in imported.splitlines()}
    inexact = re.compile(r"(a?(sin|cos|tan)h?|sincos|atan2|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|cbrt|hypot|erfc?|[lt]gamma)[fl]?")
    assert not [name for name in names if inexact.fullmatch(name)]
