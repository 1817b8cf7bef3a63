import jax
import pytest


@pytest.fixture(autouse=True)
def _default_precision():
    """The tests are NumPy: check values hold to ten digits although JAX is left at single precision."""
    with jax.enable_x64(False):
        yield
