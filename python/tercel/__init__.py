"""tercel: an inference optimizer and runtime.

    import numpy as np, tercel
    session = tercel.Session("net.onnx")
    scores, = session.run(None, {"x": np.zeros((1, 3, 224, 224), np.float32)})
"""

from ._tercel import (
    Cancelled,
    Error,
    InternalError,
    InvalidArgument,
    InvalidModel,
    IOFailure,
    OutOfMemory,
    Unsupported,
    machine,
    passes,
    version,
)
from .arrays import dequantize
from .checks import Check, Finding, check
from .operators import Dim, Operators, Spec
from .session import Node, Session

__version__ = version

__all__ = [
    "Cancelled",
    "Check",
    "Dim",
    "Error",
    "Finding",
    "InternalError",
    "InvalidArgument",
    "InvalidModel",
    "IOFailure",
    "Node",
    "Operators",
    "OutOfMemory",
    "Session",
    "Spec",
    "Unsupported",
    "check",
    "dequantize",
    "machine",
    "passes",
    "version",
]
