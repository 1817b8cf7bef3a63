"""Plain NumPy double loops, written from the paper's formulas: slow, obvious, independent of the package."""

import numpy as np


def rbf(tau, h):
    """k, dk/dtau, d2k/dtau2 of the Gaussian kernel."""
    k = np.exp(-(tau**2) / (2 * h**2))
    return k, -tau / h**2 * k, (tau**2 / h**4 - 1 / h**2) * k


def imq(tau, h):
    base = 1 + tau**2 / h**2
    k = base**-0.5
    return k, -tau / h**2 * base**-1.5, -1 / h**2 * base**-1.5 + 3 * tau**2 / h**4 * base**-2.5


def matern32(tau, h):
    v = np.sqrt(3) * abs(tau) / h
    return (1 + v) * np.exp(-v), -3 * tau / h**2 * np.exp(-v), -3 / h**2 * (1 - v) * np.exp(-v)


def median_gap(t):
    n = len(t)
    return np.median([abs(t[i] - t[j]) for i in range(n) for j in range(i + 1, n)])


def slice_statistics(x, s, r, g, kernel=rbf, h=None, feature=None, jacobian=None):
    """U and V of one slice (label "eq: SKSD inner"); phi and its Jacobian for the deep form."""
    n = len(x)
    t = np.array([(x[i] if feature is None else feature(x[i])) @ g for i in range(n)])
    a = np.array([s[i] @ r for i in range(n)])
    c = np.array([r @ g if jacobian is None else r @ jacobian(x[i]) @ g for i in range(n)])
    h = median_gap(t) if h is None else h
    total = off = 0.0
    for i in range(n):
        for j in range(n):
            k, first, second = kernel(t[i] - t[j], h)
            # d/dt_j k = -k', d2/dt_i dt_j k = -k''
            value = a[i] * k * a[j] + c[i] * a[j] * first - c[j] * a[i] * first - c[i] * c[j] * second
            total += value
            off += value if i != j else 0.0
    return off / (n * (n - 1)), total / n**2
