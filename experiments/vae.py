"""Amortised SVGD for a VAE on dynamically binarised MNIST (tables "Amortized SVGD LL", "Label entropy").

Implicit encoders trained by SVGD or S-SVGD (label "alg: Amortized SVGD") beside the usual Gaussian one; log-likelihoods
by HAIS on the first test images, binarised once; at D = 32, imputation of the lower half (figure "Imputed Images").

    python -m experiments.vae --preset smoke | quick | long | fifty | paper

`fifty` is the longest schedule that two cores can do in half a day, in two sizes.

A run that was killed goes on from the last epoch; delete experiments/checkpoints/ to train afresh.
"""

import time

import numpy as np

from experiments import runner

METHODS = ("vae", "svgd", "s-svgd", "svgd-narrow")  # the last two with the kernel of the released code
MEDIAN = "s-svgd-median"  # with that of svgd
DIMS = (16, 32, 48, 64)
IMPUTED_DIM = 32
PAPER = {
    "vae": (-91.50, -90.39, -90.58, -91.50),
    "svgd": (-88.58, -90.43, -93.47, -94.88),
    "s-svgd": (-89.17, -87.55, -87.74, -87.78),
}
PAPER["svgd-narrow"] = PAPER["svgd"]
PAPER_IMPUTED = {"vae": (0.297, 0.718), "svgd": (0.538, 0.691), "s-svgd": (0.542, 0.728)}  # entropy, accuracy
PAPER_IMPUTED["svgd-narrow"] = PAPER_IMPUTED["svgd"]
TRAINING = {  # latent samples of an image, epochs, batches of an epoch
    "smoke": {"samples": 4, "epochs": 1, "batches": 3},
    "quick": {"samples": 10, "epochs": 3, "batches": 600},
    "long": {"samples": 10, "epochs": 12, "batches": 600},
    "fifty": {"samples": 20, "epochs": 50, "batches": 600},
    "paper": {"samples": 50, "epochs": 100, "batches": 600},
}
EVALUATION = {  # HAIS: images, chains, temperatures, leapfrog steps; imputation: images, chains, steps
    "smoke": ((4, 2, 5, 2), (2, 3, 2)),
    "quick": ((50, 8, 300, 5), (50, 20, 100)),
    "long": ((100, 8, 800, 5), (100, 50, 200)),
    "fifty": ((500, 8, 800, 5), (100, 50, 200)),
    "paper": ((5000, 16, 1000, 10), (1000, 200, 500)),
}
COLOURS = dict(zip((*METHODS, MEDIAN), ("#999999", "#000000", "#0072B2", "#D55E00", "#56B4E9"), strict=True))
CURVE = (100, 8, 200, 5)  # HAIS while it trains
SHEET = 10  # rows and columns of the pictures


def cells(preset: str) -> list[dict]:
    pairs = [(method, dim) for dim in sorted(DIMS, key=lambda d: d != IMPUTED_DIM) for method in METHODS]
    if preset == "smoke":
        pairs = [("s-svgd", IMPUTED_DIM)]
    elif preset == "fifty":
        pairs = [(method, dim) for dim in (IMPUTED_DIM, 64) for method in ("s-svgd", "vae", "svgd")]
        pairs += [("svgd-narrow", 64), (MEDIAN, IMPUTED_DIM)]
    return [{"preset": preset, "method": method, "dim": dim, "seed": 0, **TRAINING[preset]} for method, dim in pairs]


def name_of(cell: dict) -> str:
    return f"vae-{cell['preset']}-{cell['method']}-{cell['dim']}-{cell['samples']}x{cell['epochs']}-seed{cell['seed']}"


def log_marginal(decoder, test, key, settings: tuple[int, int, int, int]):
    """HAIS on the first test images: log-likelihoods, acceptance, deviation of the log-weights."""
    from experiments import hais, vae_networks

    images, chains, temperatures, leapfrogs = settings
    likelihood = lambda z, x, decoder: vae_networks.log_likelihood(decoder, z, x)
    numbers = {"chains": chains, "temperatures": temperatures, "leapfrogs": leapfrogs}
    return hais.log_marginal(likelihood, (decoder,), test[:images], decoder[0]["w"].shape[0], key=key, **numbers)


def work(cell: dict) -> dict:
    import jax
    import jax.numpy as jnp

    from experiments import imputation, vae_networks, vae_training
    from experiments.data import load

    begin = time.perf_counter()
    data = load("mnist")
    pixels = data["x_train"].reshape(-1, vae_networks.PIXELS)
    evaluation, (imputed, imputing_chains, steps) = EVALUATION[cell["preset"]]
    images, _, temperatures, _ = evaluation
    test_key, chain_key, imputation_key, sheet_key = jax.random.split(jax.random.key(2026), 4)
    test = data["x_test"][: max(images, imputed)].reshape(-1, vae_networks.PIXELS)
    test = vae_training.binarise(test_key, jnp.asarray(test))  # once, the same for all methods

    setting = (cell["method"], cell["dim"], cell["samples"], cell["epochs"], cell["seed"])
    watch = lambda decoder: float(log_marginal(decoder, test, chain_key, CURVE)[0].mean())
    encoder, decoder, history = vae_training.train(name_of(cell), *setting, pixels, cell["batches"], watch)
    trained = time.perf_counter()

    log_p, acceptance, deviation = log_marginal(decoder, test, chain_key, evaluation)
    z = vae_networks.samples(cell["method"])(encoder, test[:images], sheet_key, cell["samples"])
    row = {
        "log_likelihood": float(log_p.mean()),
        "standard_error": float(log_p.std(ddof=1) / np.sqrt(images)),
        "log_p": np.round(log_p, 2).tolist(),
        "reconstruction": float(vae_networks.log_likelihood(decoder, z, test[:images]).mean()),
        "spread": history["spread"][-1],
        "curve": [[i + 1, round(value, 2)] for i, value in enumerate(history["watched"]) if np.isfinite(value)],
        "images": images,
        "temperatures": temperatures,
        "acceptance": round(acceptance, 3),
        "log_weight_deviation": round(deviation, 2),
        "seconds_per_step": min(history["cpu_seconds"]) / cell["batches"],  # of one core, whatever else it does
        "training_seconds": round(sum(history["seconds"]), 1),
    }
    evaluated = time.perf_counter()
    if cell["dim"] == IMPUTED_DIM:
        settings = {"method": cell["method"], "images": imputed, "chains": imputing_chains, "steps": steps}
        entropy, accuracy, found = imputation.evaluate(encoder, decoder, data, test, imputation_key, **settings)
        prior = jax.random.normal(sheet_key, (SHEET**2, cell["dim"]), jnp.float32)
        pictures = {
            "samples": np.asarray(jax.nn.sigmoid(vae_networks.apply(decoder, prior))),
            "originals": data["x_test"][:SHEET].reshape(-1, vae_networks.PIXELS) / np.float32(255),
            "imputed": found[:SHEET, :SHEET],
        }
        np.savez(vae_training.CHECKPOINTS / f"{name_of(cell)}-pictures.npz", **pictures)
        row |= {"entropy": entropy, "accuracy": accuracy}
    end = time.perf_counter()
    return row | {"evaluation_seconds": round(evaluated - trained, 1), "seconds": round(end - begin, 1)}


def shown(rows: list[dict]) -> tuple[list[str], list[int]]:
    """Methods and dimensions of which there are rows, in the order of their lists."""
    methods, dims = {r["method"] for r in rows}, {r["dim"] for r in rows}
    return [m for m in (*METHODS, MEDIAN) if m in methods], [d for d in DIMS if d in dims]


def header(first: str, dims: list[int]) -> list[str]:
    return [f"| {first} | " + " | ".join(f"D = {d}" for d in dims) + " |", "| --- |" + " --- |" * len(dims)]


def table(rows: list[dict]) -> str:
    """Test log-likelihoods and imputation, the paper's figures in brackets."""
    found = {(r["method"], r["dim"]): r for r in rows}
    methods, dims = shown(rows)
    brackets = lambda printed: "" if printed is None else f" ({printed})"
    lines = header("method", dims)
    for method in methods:
        paper = dict(zip(DIMS, PAPER[method], strict=True)) if method in PAPER else {}
        cell = lambda row, printed: "" if row is None else f"{row['log_likelihood']:.2f}{brackets(printed)}"
        numbers = [cell(found.get((method, dim)), f"{paper[dim]:.2f}" if paper else None) for dim in dims]
        lines.append(f"| {method} | " + " | ".join(numbers) + " |")
    lines += ["", "| method | label entropy | accuracy | seconds per step |", "| --- | --- | --- | --- |"]
    for method in methods:
        row = found.get((method, IMPUTED_DIM))
        if row is not None and "entropy" in row:
            entropy, accuracy = PAPER_IMPUTED.get(method, (None, None))
            numbers = f"{row['entropy']:.3f}{brackets(entropy)} | {row['accuracy']:.3f}{brackets(accuracy)}"
            lines.append(f"| {method} | {numbers} | {row['seconds_per_step']:.4f} |")
    return "\n".join(lines)


def differences(rows: list[dict]) -> str:
    """S-SVGD less the others on the same images: mean and standard error."""
    found = {(r["method"], r["dim"]): r for r in rows}
    methods, dims = shown(rows)
    lines = header("S-SVGD less", dims)
    for other in (m for m in methods if m != "s-svgd"):
        numbers = []
        for dim in dims:
            pair = [found.get((method, dim)) for method in ("s-svgd", other)]
            numbers.append(
                runner.mean_and_error(np.subtract(*(row["log_p"] for row in pair)), "+.2f") if all(pair) else ""
            )
        lines.append(f"| {other} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def curves(rows: list[dict], path) -> None:
    """Test log-likelihood while the networks train, a panel for every latent size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    _, dims = shown(rows)
    size = (5 * len(dims), 3.6)
    fig, axes = plt.subplots(1, len(dims), figsize=size, layout="constrained", sharey=True, squeeze=False)
    for ax, dim in zip(axes[0], dims, strict=True):
        for row in rows:
            if row["dim"] == dim:
                ax.plot(*zip(*row["curve"], strict=True), label=row["method"], color=COLOURS[row["method"]], marker="o")
        ax.set(title=f"D = {dim}", xlabel="epoch")
        ax.legend(frameon=False, loc="lower right")
    axes[0, 0].set_ylabel("test log-likelihood, HAIS")
    fig.savefig(path, dpi=110)


def pictures(preset: str) -> None:
    """Samples of the decoders at D = 32, and imputed images: original, what was seen, results of chains."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from experiments.vae_training import CHECKPOINTS

    chosen = [cell for cell in cells(preset) if cell["dim"] == IMPUTED_DIM]
    files = {cell["method"]: CHECKPOINTS / f"{name_of(cell)}-pictures.npz" for cell in chosen}
    found = {m: np.load(files[m], allow_pickle=False) for m in METHODS if m in files and files[m].exists()}
    if not found:
        return
    sheet = lambda rows: np.concatenate([np.concatenate(list(row.reshape(-1, 28, 28)), axis=1) for row in rows])
    seen = np.where(np.arange(784) < 392, 1, 0)
    for what in ("samples", "imputed"):
        fig, axes = plt.subplots(1, len(found), figsize=(4 * len(found), 4.3), layout="constrained", squeeze=False)
        for ax, (method, arrays) in zip(axes[0], found.items(), strict=True):
            if what == "samples":
                rows = arrays["samples"].reshape(SHEET, SHEET, -1)
            else:
                first = arrays["originals"][:, None]
                rows = np.concatenate([first, first * seen, arrays["imputed"]], axis=1)
            ax.imshow(sheet(rows), cmap="gray_r", vmin=0, vmax=1)
            ax.set(xticks=[], yticks=[], title=method)
        fig.savefig(runner.FIGURES / f"vae-{what}-{preset}.png", dpi=110)


def main() -> None:
    preset = runner.preset(__doc__.splitlines()[0], choices=tuple(TRAINING))
    rows = runner.run(f"vae-{preset}", cells(preset), work)
    print(table(rows))
    if preset != "smoke":
        print(differences(rows))
        pictures(preset)
        if all("curve" in row for row in rows):  # older lines have none
            curves(rows, runner.FIGURES / f"vae-curves-{preset}.png")


if __name__ == "__main__":
    main()
