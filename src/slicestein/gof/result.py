"""What a goodness-of-fit test says: the verdict, and which slices and coordinates carry it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float

from slicestein.slices import Slices


@dataclass(frozen=True)
class GofResult:
    """Outcome of a goodness-of-fit test; prints as a summary."""

    statistic: float
    pvalue: float
    null_distribution: Float[np.ndarray, " b"] = field(repr=False)
    alpha: float
    method: str
    num_train: int
    num_test: int
    slices: Slices | None = field(default=None, repr=False)  # in the coordinates of the samples
    per_slice: Float[np.ndarray, " m"] | None = field(default=None, repr=False)
    per_dimension: Float[np.ndarray, " d"] | None = field(default=None, repr=False)
    names: tuple[str, ...] | None = field(default=None, repr=False)
    bootstrap: str = "wild"
    components: dict[str, float] | None = None  # of maxSKSD-rg, in standard deviations of the null

    @property
    def reject(self) -> bool:
        """Whether the samples are found not to come from the model."""
        return self.pvalue <= self.alpha

    def worst(self, num: int = 5) -> list[tuple[str, float]]:
        """Names of the coordinates that carry most of the discrepancy, with their shares."""
        if self.per_dimension is None:
            return []
        order = np.argsort(-self.per_dimension)[:num]
        names = self.names or tuple(f"x[{i}]" for i in range(len(self.per_dimension)))
        return [(names[i], float(self.per_dimension[i])) for i in order if self.per_dimension[i] > 0]

    def summary(self) -> str:
        """The verdict in words, and what it rests on."""
        verdict = "the samples do NOT fit the model" if self.reject else "no evidence against the model"
        lines = [
            f"{self.method}: {verdict} (p = {self.pvalue:.4g}, level {self.alpha:g})",
            f"  statistic {self.statistic:.4g}; null 95% quantile {np.quantile(self.null_distribution, 0.95):.4g} "
            f"({len(self.null_distribution)} draws, {self.bootstrap})",
            f"  {self.num_test} samples tested, {self.num_train} used to choose slices",
        ]
        if self.components:
            found = ", ".join(f"{name} {value:.1f}" for name, value in self.components.items())
            lines.append(f"  standard deviations from the null: {found}")
        worst = self.worst()
        if worst and self.reject:
            lines.append("  carried by " + ", ".join(f"{name} ({share:.0%})" for name, share in worst))
        return "\n".join(lines)

    def plot(self) -> Any:
        """A matplotlib figure: the null distribution, and where the discrepancy comes from."""
        from slicestein import plot  # matplotlib is optional

        return plot.overview(self)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary())}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        arrays = {"null_distribution": self.null_distribution, "per_slice": self.per_slice}
        arrays |= {"per_dimension": self.per_dimension}
        if self.slices is not None:
            arrays |= {"r": np.asarray(self.slices.r), "g": np.asarray(self.slices.g)}
        plain = {
            k: getattr(self, k)
            for k in ("statistic", "pvalue", "alpha", "method", "num_train", "num_test", "components")
        }
        plain |= {"reject": self.reject, "bootstrap": self.bootstrap, "names": self.names and list(self.names)}
        return plain | {k: None if v is None else np.asarray(v).tolist() for k, v in arrays.items()}
