"""What `check` says to arguments that are no model and fit."""

import numpy as np
import pytest

import slicestein as ss
from slicestein.adapters.draws import group

X = np.random.default_rng(0).standard_normal((200, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X,), r"model is an array, ndarray of shape \(200, 3\): .* gof_test\(x, score, key=0\)"),
        ((X, -X), r"model must be a function, or a model of PyMC or Stan, got ndarray; .* gof_test\(x, score, key=0\)"),
        ((X, lambda x: -x), r"the model comes first: check\(model, fit\), got check\(ndarray, ...\)"),
        ((None,), "must be ArviZ InferenceData or an xarray DataTree, got NoneType"),
        (({"a": X},), "no group 'sample_stats': found a"),
        ((lambda x: -x,), "fit is missing: pass the model and the fit, got function alone"),
    ],
)
def test_what_is_no_model_is_told(arguments, message):
    with pytest.raises(ss.InputError, match=message):
        ss.check(*arguments)


def test_draws_of_an_adapter_are_enough():
    draws = ss.adapters.Draws(X[None], -X[None], ("a", "b", "c"))
    assert ss.check(draws).draws is draws


@pytest.mark.parametrize(("fit", "message"), [(X, "got ndarray$"), ("trace.nc", "got str: .* arviz.from_netcdf")])
def test_what_is_no_trace_is_told(fit, message):
    with pytest.raises(ss.InputError, match=f"must be ArviZ InferenceData or an xarray DataTree, {message}"):
        group(fit, "posterior")
