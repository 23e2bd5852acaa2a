"""y = a*x + y and a dot product on the GPU.

Importing needs neither a GPU nor a CUDA driver, nor even the extension modules: the functions say what is missing
when they are called.
"""

from types import ModuleType

try:
    from axpy._version import __commit_id__, __version__
except ImportError:
    __version__ = "dev"
    __commit_id__ = None

__all__ = ["__commit_id__", "__version__", "axpy", "device_count", "dot"]


def axpy(a, x, y):
    """``y = a * x + y`` in place; ``x`` and ``y`` are buffers of float or double, ``array.array`` say."""
    _kernels().axpy(a, x, y)


def dot(x, y):
    """The dot product of two buffers of float or double."""
    return _kernels().dot(x, y)


def device_count():
    """How many GPUs there are; RuntimeError where there is no driver."""
    return _kernels().device_count()


def _kernels() -> ModuleType:
    try:
        from axpy import _C
    except ImportError as error:
        raise RuntimeError(f"axpy {__version__} was built without its extension modules: {error}") from error
    return _C
