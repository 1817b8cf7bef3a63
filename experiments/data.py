"""Data sets, from the folder that SLICESTEIN_DATA names: ``uci/NAME.npz``, checked by their hashes."""

import hashlib
import os
from pathlib import Path

import numpy as np

SHA256 = {
    "uci/boston": "0c1bbf0b79b8c2996afa31b259ca6cff56f5a6f72501358901ae5aa8fadd6e2f",
    "uci/concrete": "9c21d78a673e0497ffe3b1b0debe81053a9cd5f059a93401a033996d23113f2b",
    "uci/power": "5d83a09e265de79aea30d4ab1d8e286b0693c6929b5d827996e6a38406be5b46",
    "uci/naval": "de583453fc10c89eadc6e4ba8bd41f956b3e0b42d67b27171fd113081a7d704f",
    "uci/wine-red": "6fee81add0efaa659b6db740aa04e65367df2715f0c36922a5e1e1b490fa1844",
    "uci/energy": "08f24c196d604db4ca1d62f2b1230c3bd3f167579250a21fe9447c43cadb531d",
    "uci/kin8nm": "fe0770f1fc43e1a82cfbb03673cb9fe7f307d9409c7484ca630d3d060dbafe0d",
    "uci/yacht": "6955c439f63f6ebc2126ca32484e732f436dc0b4ebae860db495fb683b557382",
    "uci/protein": "350e5457020f5795ca0dd3c97f65e535a6b6a9eaf0715d112edfd79a38be2c73",
}


def load(name: str) -> dict[str, np.ndarray]:
    """All arrays of a data set."""
    folder = os.environ.get("SLICESTEIN_DATA")
    if not folder:
        raise FileNotFoundError("set SLICESTEIN_DATA to the folder that holds uci/*.npz")
    path = Path(folder) / f"{name}.npz"
    if not path.exists():
        raise FileNotFoundError(f"{path.name} is missing from the folder that SLICESTEIN_DATA names")
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256[name]:
        raise ValueError(f"{path.name} is not the file these experiments were run with: its SHA-256 differs")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def uci_split(name: str, trial: int) -> dict[str, np.ndarray]:
    """One of the standard 90/10 splits (Hernandez-Lobato and Adams 2015), standardised by its training part.

    ``y_test`` keeps its units: a prediction z stands for ``y_mean + y_std * z``.
    """
    data = load(f"uci/{name}")
    x, y = data["x"], data["y"]
    rng = np.random.RandomState(1)  # the generator of the published splits
    for _ in range(trial + 1):
        order = rng.permutation(len(y))
    cut = round(len(y) * 0.9)
    train, test = order[:cut], order[cut:]
    mean, std = x[train].mean(0), x[train].std(0)
    std = np.where(std > 1e-10 * np.maximum(abs(mean), 1), std, 1.0)  # constant columns
    y_mean, y_std = y[train].mean(), y[train].std()
    return {
        "x_train": (x[train] - mean) / std,
        "y_train": (y[train] - y_mean) / y_std,
        "x_test": (x[test] - mean) / std,
        "y_test": y[test],
        "y_mean": y_mean,
        "y_std": y_std,
    }


def validation_split(data: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """A tenth of the training part in place of the test part."""
    order = np.random.default_rng(seed).permutation(len(data["y_train"]))
    cut = round(len(order) * 0.9)
    train, held_out = order[:cut], order[cut:]
    return data | {
        "x_train": data["x_train"][train],
        "y_train": data["y_train"][train],
        "x_test": data["x_train"][held_out],
        "y_test": data["y_mean"] + data["y_std"] * data["y_train"][held_out],
    }
