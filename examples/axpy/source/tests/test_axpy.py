"""Run after installing, with ``pytest tests``; the GPU's half is left out where there is no GPU."""

from array import array

import axpy
import pytest
from axpy import _host


def gpus() -> int:
    try:
        return axpy.device_count()
    except RuntimeError:
        return 0


@pytest.mark.parametrize("kind", ["f", "d"])
def test_axpy_and_dot_on_the_cpu(kind):
    x, y = array(kind, [1, 2, 3]), array(kind, [10, 20, 30])
    _host.axpy(2, x, y)
    assert list(y) == [12, 24, 36]
    assert _host.dot(x, y) == 12 + 48 + 108


@pytest.mark.parametrize(
    ("x", "y", "error"),
    [
        (array("f", [1]), array("f", [1, 2]), ValueError),
        (array("f", [1]), array("d", [1]), TypeError),
        (array("i", [1]), array("i", [1]), TypeError),
        (array("f", [1]), bytes(4), TypeError),
    ],
)
def test_vectors_that_do_not_match_are_refused(x, y, error):
    with pytest.raises(error):
        _host.dot(x, y)


@pytest.mark.skipif(gpus() > 0, reason="there is a GPU")
def test_without_a_gpu_the_error_says_so():
    with pytest.raises(RuntimeError, match="needs a CUDA GPU"):
        axpy.dot(array("f", [1]), array("f", [1]))


@pytest.mark.skipif(gpus() == 0, reason="needs a GPU")
@pytest.mark.parametrize("kind", ["f", "d"])
def test_the_gpu_agrees_with_the_cpu(kind):
    x = array(kind, [(i % 17) / 16 for i in range(100_003)])
    expected, found = array(kind, x), array(kind, x)
    _host.axpy(0.5, x, expected)
    axpy.axpy(0.5, x, found)
    assert found == expected  # every product and sum here is exact
    assert axpy.dot(x, x) == pytest.approx(_host.dot(x, x), rel=1e-5)
