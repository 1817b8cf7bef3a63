"""Tests of other packages in `benchmarks/peer_tests.py` are those tests: their statistics are those of this package."""

import math

import numpy as np
import pytest

import slicestein as ss
from benchmarks import peer_tests
from slicestein.gof.baselines import fssd
from slicestein.gof.baselines.ksd import ksd_matrix

X = np.random.default_rng(0).standard_normal((60, 4)) + 0.3


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(peer_tests, "AGGREGATED_DRAWS", 200)


def test_the_matrix_of_kernel_gof():
    found = peer_tests.ksd_matrix(X, -X, 1.7**2)
    np.testing.assert_allclose(found, ksd_matrix(X, -X, ss.RBF(1.7)), rtol=1e-10, atol=1e-12)


def test_the_matrix_of_ksdagg():
    slopes = (X * -X).sum(1)[:, None] - X @ -X.T
    q = peer_tests.squared_distances(X, X)
    found = peer_tests.aggregated_matrix(q, slopes + slopes.T, X @ X.T, X.shape[1], 1.7)
    expected = ksd_matrix(X, -X, ss.IMQ(1.7))
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_the_statistic_of_fssd():
    locations = X[:3] + 0.5
    tau = peer_tests.fssd_features(np, X, -X, locations, 1.7**2).reshape(len(X), -1)
    expected = fssd.fssd_statistic(fssd.fssd_features(X, -X, locations, 1.7))
    np.testing.assert_allclose(peer_tests.fssd_statistic(np, tau) / len(X) / locations.size, expected, rtol=1e-10)


@pytest.mark.parametrize("test", [peer_tests.ksd, peer_tests.ksdagg])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_verdicts(test, shift):
    x = np.random.default_rng(2).standard_normal((100, 3)) + shift
    assert (test(x, lambda x: -x, 0) <= peer_tests.LEVEL) == (shift > 0)


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_verdict_of_fssd(shift):
    pytest.importorskip("autograd")
    x = np.random.default_rng(1).standard_normal((300, 3)) + shift
    assert (peer_tests.fssd_opt(x, lambda x: -x, 0) <= peer_tests.LEVEL) == (shift > 0)


def test_bisection_finds_the_level():
    """Of one kernel ten times over: every test at the level itself."""
    rng = np.random.default_rng(0)
    one = rng.standard_normal(401)
    level = np.sort(one[:201])[math.ceil(201 * (1 - peer_tests.LEVEL)) - 1]
    for statistic, rejected in ((level + 0.5, True), (level - 0.5, False)):
        one[200] = statistic
        assert peer_tests.rejects(np.tile(one, (10, 1))) == rejected
