"""The main job in a minute: is this MCMC output right? Prints a verdict, writes demo/report.html.

The posterior of a linear regression with 50 coefficients is known exactly. One sampler draws from it; the other one
explores a single coefficient too timidly (80% of its spread), which no trace plot shows.
"""

import base64
import io
from html import escape
from pathlib import Path

import jax
import numpy as np

import slicestein as ss
from slicestein import plot

jax.config.update("jax_enable_x64", True)

DIM, DRAWS, WRONG = 50, 2000, 17


def posterior():
    """Mean and precision of the coefficients, given 200 simulated observations."""
    rng = np.random.default_rng(0)
    design = rng.standard_normal((200, DIM)) * np.exp(rng.normal(size=DIM))  # predictors on different scales
    outcome = design @ rng.standard_normal(DIM) + rng.standard_normal(200)
    precision = design.T @ design + np.eye(DIM)
    return np.linalg.solve(precision, design.T @ outcome), precision


def picture(figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'


def main() -> None:
    mean, precision = posterior()
    root = np.linalg.cholesky(np.linalg.inv(precision))
    good = mean + np.random.default_rng(1).standard_normal((DRAWS, DIM)) @ root.T
    timid = mean + np.random.default_rng(2).standard_normal((DRAWS, DIM)) @ root.T
    timid[:, WRONG] = mean[WRONG] + 0.8 * (timid[:, WRONG] - mean[WRONG])
    score_fn = ss.score_from(lambda beta: -0.5 * (beta - mean) @ precision @ (beta - mean))
    names = [f"beta[{i}]" for i in range(DIM)]

    sections = []
    for title, draws in (("exact sampler", good), (f"sampler that is timid in beta[{WRONG}]", timid)):
        result = ss.gof_test(draws, score_fn, key=0, names=names)
        print(f"\n== {title}\n{result}")
        figures = picture(result.plot())
        worst = int(np.argmax(result.per_slice))
        figures += picture(plot.witness_along(draws, score_fn, result.slices, worst).figure)
        sections.append(f"<h2>{escape(title)}</h2><pre>{escape(str(result))}</pre>{figures}")

    out = Path("demo")
    out.mkdir(exist_ok=True)
    style = (
        "body{font:16px system-ui;max-width:70rem;margin:2rem auto;padding:0 1rem}img{max-width:100%}pre{overflow:auto}"
    )
    (out / "report.html").write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Slicestein demo</title><style>{style}</style><h1>Is my sampler right?</h1>{''.join(sections)}</html>"
    )
    print(f"\nreport: {out / 'report.html'}")


if __name__ == "__main__":
    main()
