"""From benchmark rows to the tables and the claims of the documentation."""


def describe(row: dict) -> str:
    """One line on the terminal."""
    if row["case"] == "speed":
        what = "value + gradient" if row["derivative"] else "value"
        return (
            f"{row['method']:>8} N={row['n']:<8} D=M={row['d']:<4} {what:<17} {1e3 * row['seconds']:9.2f} ms"
            f"  {row['seconds'] / row['product']:7.1f} x product  compile {row['compile']:.2f} s"
            f"  {row['memory_mb']:6.0f} MB"
        )
    if row["case"] == "accuracy":
        errors = "  ".join(f"{k[6:]} {v:.1e}" for k, v in row.items() if k.startswith("error"))
        return f"{row['data']:>10} D={row['d']:<4} {row['dtype']}: {errors}"
    return (
        f"Cauchy N={row['n']}: error {row['error_v']:.1e}, "
        f"{row['seconds'] / row['gaussian_seconds']:.1f} x the time on Gaussian samples"
    )


def find(rows: list[dict], **wanted) -> dict | None:
    return next((row for row in rows if all(row.get(k) == v for k, v in wanted.items())), None)


def worst(rows: list[dict], dtype: str) -> float:
    return max(v for row in rows if row.get("dtype") == dtype for k, v in row.items() if k.startswith("error"))


def claim_lines(rows: list[dict]) -> list[tuple[str, str, str]]:
    """What is claimed, the bar, and what was measured."""
    fast = {"case": "speed", "method": "fourier"}
    lines = [
        ("Fourier against exact, double, largest error relative to V", "1e-8", f"{worst(rows, 'float64'):.1e}"),
        ("the same in single precision", "1e-4", f"{worst(rows, 'float32'):.1e}"),
    ]
    small = find(rows, **fast, n=800, d=100, derivative=False)
    small_gradient = find(rows, **fast, n=800, d=100, derivative=True)
    dense = find(rows, case="speed", method="dense", n=800, d=100, derivative=False)
    if small and small_gradient and dense:
        lines += [
            ("N=800, D=M=100: faster than dense", "40x", f"{dense['seconds'] / small['seconds']:.0f}x"),
            ("value + gradient against value", "3x", f"{small_gradient['seconds'] / small['seconds']:.1f}x"),
            ("first call (compilation)", "3 s", f"{small['compile']:.2f} s"),
        ]
    large = find(rows, **fast, n=100_000, d=100, derivative=False)
    if large:
        lines.append(("N=100,000, D=M=100 against x @ g.T alone", "6x", f"{large['seconds'] / large['product']:.1f}x"))
    portable = find(rows, case="speed", method="portable", n=100_000, d=100, derivative=False)
    if portable:
        ratio = portable["seconds"] / portable["product"]
        lines.append(("the same without the compiled kernel (XLA alone)", "", f"{ratio:.1f}x"))
    million = find(rows, **fast, n=1_000_000, d=100, derivative=False)
    if large and million:
        ratio = million["seconds"] / large["seconds"] / 10
        lines += [
            ("N=1,000,000: memory above the inputs", "1 GB", f"{million['memory_mb'] / 1024:.2f} GB"),
            ("N=1,000,000: time per sample against N=100,000", "1.2x", f"{ratio:.2f}x"),
        ]
    tails = find(rows, case="tails")
    if tails:
        ratio = tails["seconds"] / tails["gaussian_seconds"]
        lines += [
            (f"Cauchy, N={tails['n']:,}, D=M=10: error", "1e-8", f"{tails['error_v']:.1e}"),
            ("Cauchy: time against Gaussian samples", "30x", f"{ratio:.1f}x"),
        ]
    return lines


def report(rows: list[dict]) -> str:
    """The Markdown file that the documentation quotes."""
    out = ["# Engines: accuracy, time, memory", "", "Written by `make bench`. Double precision unless said.", ""]
    out += ["| claim | bar | measured |", "| --- | --- | --- |"]
    out += [f"| {what} | {bar} | {measured} |" for what, bar, measured in claim_lines(rows)]
    out += ["", "## Time", "", "Median of repeated calls; product is `x @ g.T` in the same process.", ""]
    out += ["| engine | N | D = M | | ms | x product | compile, s | memory, MB |", "| --- " * 8 + "|"]
    for row in rows:
        if row["case"] == "speed":
            what = "value + gradient" if row["derivative"] else "value"
            out.append(
                f"| {row['method']} | {row['n']:,} | {row['d']} | {what} | {1e3 * row['seconds']:.2f} "
                f"| {row['seconds'] / row['product']:.1f} | {row['compile']:.2f} | {row['memory_mb']:.0f} |"
            )
    out += ["", "## Accuracy", "", "Largest difference to the exact engine over slices, relative to V.", ""]
    out += ["| samples | D | dtype | V | U | gradient in r | gradient in g |", "| --- " * 7 + "|"]
    for row in rows:
        if row["case"] == "accuracy":
            errors = [row.get(f"error_{k}") for k in ("v", "u", "grad_r", "grad_g")]
            shown = " | ".join("" if e is None else f"{e:.1e}" for e in errors)
            out.append(f"| {row['data']} | {row['d']} | {row['dtype']} | {shown} |")
    return "\n".join(out) + "\n"
