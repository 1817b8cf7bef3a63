"""What the paper reports, section by section of the experiments page, beside which ours are put.

Its figures are not at hand: numbers are those of its tables and of its text. "Here" says where ours differ and why.
"""

STEP_SIZES = """| seed of the paper | kl | ksd | maxsksd-g | maxsksd-rg |
| --- | --- | --- | --- | --- |
| 1 | 0.004 | 0.015 | 0.013 | 0.004 |
| 2 | 0.004 | 0.015 | 0.004 | 0.008 |
| 3 | 0.004 | 0.013 | 0.008 | 0.008 |"""

PAPER = {
    "Goodness of fit: level": (
        "All methods but RFSD with the L2-SechExp kernel reject near the level.",
        "The same for ours; the table of all methods below has a column for the null. The paper's formula for the "
        "bootstrap, read literally, centres counts by 1/N and rejects hardly anything; shares of counts keep the "
        "level, as do signs, which are the default here.",
    ),
    "Goodness of fit: power": (
        "maxSKSD-g rejects nearly always for Laplace, t and diffusion up to D = 100.",
        "The same. Rotated problems are ours: the r of maxSKSD-g are coordinates, and it loses a wrong direction "
        "that is none of them; maxSKSD-rg finds a wrong scale in any direction. Neither finds 50 Laplace coordinates "
        "that a rotation has mixed into nearly normal ones.",
    ),
    "Goodness of fit: all methods against the dimension": (
        "maxSKSD-g stays near 1 in every dimension while the power of every baseline falls; the null is kept by all "
        "but RFSD with L2-SechExp.",
        "The same: with the paper's search as published maxSKSD-g rejects in every dimension, and from closed forms "
        "no search is needed. As published maxSKSD-rg, which the paper has not on these problems, loses its power from "
        "D = 25 on: with r free as well, 200 samples hold more noise than signal, and it climbs the noise. The value "
        "of maxSKSD-g grows more slowly than D on Laplace and t, and still falls on diffusion, because the directions "
        "found are the further from the optimum the more dimensions there are. Under the null RFSD with L2-SechExp "
        "does not stand out; RFSD with L1-IMQ does, at D = 2. For t the model is N(0, 5/3 I), as the paper states.",
    ),
    "Goodness of fit: the paper's search for slices": (
        "Adam with learning rate 0.001 from random directions; epochs are not stated, the released code has 1000 to "
        "1500.",
        "With three trials a search, a first look: what is climbed seems to make the difference. "
        "V itself brings the directions twice as close to the optimum as V in "
        "units of its noise does, which is larger along the very directions looked for; with V in units of noise "
        "neither Adam nor ten times the steps helps. Of steps 250 epochs are enough; 25 leave directions at "
        "random. From rows of normal entries a thousand epochs are too few at D = 100, and 1500 enough. Signs or "
        "multinomial weights in the bootstrap are alike. For tests we do not search: closed forms are there at once, "
        "and steps that are taken from them are judged in units of noise, where it is the ratio that counts.",
    ),
    "Restricted Boltzmann machine": (
        "maxSKSD-rg rejects in 0.96 of the trials at noise 0.01, all others in less than half.",
        "The same order; the default test, which gives a quarter of its level to other entries, sees hardly less than "
        "the fitted slices alone, `MaxSKSD(omnibus=False)`. "
        "The released code has one model and one noise matrix for all trials: *one model* is that "
        "reading. With a fresh model in each trial the rate is lower. Slices are chosen on every tenth state of the "
        "200 separate chains together, by closed forms and 60 steps of ascent; the paper takes one step of ascent at "
        "every state.",
    ),
    "Sensitivity": (
        "In 50 dimensions the KSD detects mean shifts beyond 0.18 and no change of variance; maxSKSD-g the reverse; "
        "maxSKSD-rg both, and its variance does not grow with D.",
        "The same for the KSD. Our maxSKSD-g sees shifts too, though less than the KSD does. Small changes of "
        "variance (0.75, 1.35) are seen in a part of the trials only: one coordinate of 50 must first be found on "
        "200 samples. As published, in five trials, maxSKSD-g sees shifts and a variance of 0.5, one of 0.75 in few; "
        "maxSKSD-rg, with r free, sees less at D = 50, as on the problems above. The paper does not say on how many "
        "samples it trained here. Our maxSKSD-rg looks at more than slices, also at what is made for shifts.",
    ),
    "Step size of a sampler": (
        "KSD chooses steps that are far too long; maxSKSD stays near the choice of the KL divergence:\n\n" + STEP_SIZES,
        "It depends on the condition number of the target, which the paper does not state. Up to 100 the KSD chooses "
        "as well as maxSKSD does. From 1000 on its curve is flat, and falls again at the longest steps, as in the "
        "paper: chance decides. At 10000 its choices, too long or too short, cost the most, by less than two standard "
        "errors on ten targets. maxSKSD rises with the bias everywhere; where chains mix slowly it prefers steps that "
        "are somewhat short. The KL divergence of 1.46 that the paper has at step 0.015 is there at condition number 1 "
        "only, where the KSD chooses well; the friction is not stated in the paper.",
    ),
    "Markov chains": (
        "No experiment: the tests assume independent samples.",
        "Chains are what users have, so the dependent bootstrap is tested by itself.",
    ),
    "Choosing slices": (
        "Ascent by Adam from random directions, every step taken, for a thousand epochs or more.",
        "Closed forms give more power in less time on these problems; ten trials each.",
    ),
    "Particles: variance": (
        "SVGD collapses as D grows, at any number of particles; S-SVGD keeps a variance near 1. The repulsive force "
        "of SVGD fades with D, that of S-SVGD does not.",
        "The same optimiser up to its constants (RMSProp), and the same findings, with the coordinate axes as the "
        "basis and with two bases, the default if there are more particles than dimensions. "
        "Directions are followed where the half of the particles that they were not fitted to confirms them, not at "
        "once as in the paper ([decision 5](decisions/0005-confirmed-directions.md)).",
    ),
    "Particles: correlations and modes": (
        "No experiment.",
        "Targets on which slices along the coordinate axes, as in the paper, fail: with strong correlations in a "
        "random orientation S-SVGD is then too narrow, as SVGD is, and of two modes it finds one. With the principal "
        "axes of the scores beside them, the default ([decision 6](decisions/0006-principal-axes.md)), its covariance "
        "is closer than that of exact draws, and it keeps both modes, if not their weights. Grassmann SVGD with planes "
        "does better on the weights, less well on the covariance, and costs most; with slices of many dimensions it is "
        "too wide. Noisy SVGD, which is a sampler, has the right spread.",
    ),
    "Bayesian neural networks": (
        "S-SVGD is ahead on all sets but Protein, and on Wine hardly; its particles are further apart.",
        "S-SVGD is ahead on seven of nine sets: by about two standard errors on Boston, Combined (power) and kin8nm, "
        "by more on Protein, by less on Yacht, Energy and Concrete. SVGD is ahead on Wine, by about one, and clearly "
        "on Naval. Particles of S-SVGD are further apart on seven sets, on Naval hardly, not on Energy and Wine. On "
        "the smallest sets its gain is in the worst trials: where SVGD is too sure of itself, S-SVGD is less so; on "
        "Concrete its RMSE is larger. Compared with the paper, log-likelihoods of S-SVGD are better on Yacht, Energy, "
        "kin8nm, Naval and Protein, by far on Energy and Naval; on Boston, Concrete and Combined they are worse by "
        "less than the two standard errors together. On Wine both methods are worse by about three of ours: our "
        "splits are hard ones, the paper's figures are those of the best epoch on the test set, and what is left is "
        "within what means over other splits differ by for SVGD, twice that for S-SVGD. The paper's kernel is the "
        "better one for S-SVGD on three of the small sets only.",
    ),
    "Independent components": (
        "KSD fails from D = 40 on; LSD and maxSKSD-g stay close, and maxSKSD-g is ahead from D = 80 on; maxSKSD-rg is "
        "the worse loss.",
        "The same order: maxSKSD-g is ahead of LSD from D = 80 on, beyond two standard errors at D = 200, where it "
        "also needs fewer steps; maxSKSD-rg is far behind. Slices are along the principal axes of the data "
        "([decision 6](decisions/0006-principal-axes.md)); along the coordinate axes, as in the paper, maxSKSD-g is "
        "far behind at D = 200. Our LSD has the exact divergence of its critic where the paper has random probes. No "
        "loss unmixes the sources: at best it reaches what the covariance alone gives. For LSD the reason is the sign "
        "in the score, whose jumps automatic differentiation does not see: with their derivative it does unmix. The "
        "kernel losses then do not either, at this batch size and in these steps.",
    ),
    "Amortised inference": (
        "After twice as many epochs, with 50 latent samples: SVGD is best at D = 16 and falls off from there; S-SVGD "
        "is best from D = 32 on and does not. In imputation S-SVGD has the highest accuracy, and as much variety as "
        "SVGD.",
        "S-SVGD is ahead of SVGD at D = 32 by as much as in the paper. It does not leave the usual VAE behind: it "
        "learns faster in the first twenty epochs, is overtaken then, and ends 0.35 behind in both sizes, two "
        "standard errors over images; what another training would change is not in these. All are above the paper's "
        "figures, the VAE by most. In imputation S-SVGD is more varied than the VAE, as in the paper, but less than "
        "SVGD; accuracies do not differ by more than a hundred images can show. SVGD at D = 64 was not run.",
    ),
    "Amortised inference, more dimensions": (
        "As above; its figures are in brackets.",
        "SVGD falls off from D = 32 on and S-SVGD does not; it is ahead of SVGD at every D, and most at 48 and 64. The "
        "difference to the usual VAE is within 1.3 standard errors. With the kernel of the released code SVGD loses "
        "its spread and is far behind; with one as wide as the median distance it is a fair rival. The row of the "
        "narrow kernel at D = 64 was not run.",
    ),
}


def beside(title: str) -> list[str]:
    """The paragraphs that stand below our results of a section."""
    if title not in PAPER:
        return []
    paper, here = PAPER[title]
    return [f"**The paper.** {paper}", f"**Here.** {here}"]
