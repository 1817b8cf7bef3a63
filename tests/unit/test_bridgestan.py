"""BridgeStan: draws and the gradients of a model. Building a real one needs sources from the network."""

import numpy as np
import pytest

import slicestein as ss


class Gaussian:
    """What the adapter uses of `bridgestan.StanModel`: mu with variance 1, two entries of b with variance 4."""

    def param_unc_names(self):
        return ["mu", "b.1", "b.2"]

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True, out=None):
        assert theta_unc.flags.c_contiguous  # BridgeStan hands the memory to C
        assert theta_unc.dtype == float
        if theta_unc[0] > 100:
            raise RuntimeError("log_density_gradient() failed with exception: overflow")
        gradient = -theta_unc / np.array([1, 4, 4])
        return float(theta_unc @ gradient / 2), gradient


def draws(shape=(4, 300)):
    return np.random.default_rng(0).standard_normal((*shape, 3)) * [1, 2, 2]


def test_a_right_sampler_fits_and_a_wrong_one_does_not():
    assert ss.check(Gaussian(), draws()).verdict == "fits"
    result = ss.check(Gaussian(), draws() * [1, 1, 1.3])
    assert (result.verdict, result.parameters[0].name) == ("wrong", "b[2]")


def test_one_chain_may_go_without_its_axis():
    x = draws((50,))[::2].astype(np.float32)
    found = ss.adapters.from_bridgestan(Gaussian(), x)
    assert found.names == ("mu", "b[1]", "b[2]")
    np.testing.assert_array_equal(found.x, x[None])
    np.testing.assert_allclose(found.score, -x[None] / np.array([1, 4, 4]), rtol=1e-6)


def test_faults_name_the_draw():
    with pytest.raises(ss.InputError, match=r"must have shape \(draws, 3\) .* got \(5, 4\): .*param_unconstrain"):
        ss.check(Gaussian(), np.ones((5, 4)))
    x = draws((2, 20))
    x[1, 7, 0] = 1e3
    with pytest.raises(ss.InputError, match=r"no gradient at draw 7 of chain 1: .*overflow"):
        ss.check(Gaussian(), x)
    with pytest.raises(ss.InputError, match="with a BridgeStan model no more arguments are needed"):
        ss.check(Gaussian(), x, 3)
