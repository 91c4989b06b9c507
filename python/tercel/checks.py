"""Can tercel run this file?"""
import os
import typing

from . import _tercel
from .operators import Operators


class Finding(typing.NamedTuple):
    """Something wrong with a model (level "error": it does not run), suspicious ("warning") or good to know ("note").

    kind says what it is about, for programs ("operator", "attribute", "shape", "kernel", ...); op and node name the operator and
    its node, or are empty; advice says what to do, or is empty.
    """

    level: str
    kind: str
    op: str
    node: str
    message: str
    advice: str

    def __str__(self):
        place = f"{self.op} '{self.node}'".strip() if self.node else self.op
        return f"{self.level}: {place + ': ' if place else ''}{self.message}{' -> ' + self.advice if self.advice else ''}"


class Check(list):
    """The findings of a file, errors first."""

    @property
    def runs(self):
        """True when none of them is an error."""
        return not self.errors

    @property
    def errors(self):
        return [finding for finding in self if finding.level == "error"]

    @property
    def warnings(self):
        return [finding for finding in self if finding.level == "warning"]

    def __str__(self):
        return "\n".join(map(str, self))


def check(model, *, folder=None, allow_external=(), operators=None):
    """Everything that keeps tercel from running a model, and all that is suspicious, at once: a Check.  Weights are not read.

    model, folder, allow_external, operators: as for Session.

        found = tercel.check("net.onnx")
        if not found.runs:
            print(found)
    """
    if operators is not None and not isinstance(operators, Operators):
        raise TypeError(f"operators: {type(operators).__name__}, want a tercel.Operators")
    path = data = None
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
    else:
        path = os.fspath(model)
    folders = (allow_external,) if isinstance(allow_external, (str, os.PathLike)) else allow_external
    return Check(Finding(*row) for row in _tercel.check(path, data, None if folder is None else os.fspath(folder),
                                                        [os.fspath(name) for name in folders], operators and operators._set))
