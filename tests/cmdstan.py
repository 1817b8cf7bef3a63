"""Diagnostic files as CmdStan writes them: `stan::services::util::mcmc_writer` and the printing of its arguments."""

import numpy as np

SETTINGS = """\
# stan_version_major = 2
# stan_version_minor = 35
# stan_version_patch = 0
# model = schools_model
# start_datetime = 2024-06-03 08:15:02 UTC
# method = sample (Default)
#   sample
#     num_samples = 1000 (Default)
#     num_warmup = {warmup}
#     save_warmup = {saved}
#     thin = {thin}
#     adapt
#       engaged = true (Default)
#       delta = 0.8 (Default)
#     algorithm = hmc (Default)
#       hmc
#         engine = nuts (Default)
#           nuts
#             max_depth = 10 (Default)
#         metric = diag_e (Default)
#     num_chains = 1 (Default)
# id = 1 (Default)
# output
#   file = output.csv (Default)
#   diagnostic_file = diagnostic.csv
#   sig_figs = -1 (Default)
# stanc_version = stanc3 v2.35.0
"""
ADAPTED = """\
# Adaptation terminated
# Step size = 0.809818
# Diagonal elements of inverse mass matrix:
# 0.961989, 1.04121
"""
TIMING = """\
# 
#  Elapsed Time: 0.032 seconds (Warm-up)
#                0.082 seconds (Sampling)
#                0.114 seconds (Total)
# 
"""  # noqa: W291
OF_SAMPLER = ("lp__", "accept_stat__", "stepsize__", "treedepth__", "n_leapfrog__", "divergent__", "energy__")


def text(x, score, names, *, divergent=0, treedepth=2, warmup=1000, saved="false (Default)", thin=1, digits=6):
    """One chain, (draws, D), with adaptation told of in the middle; ``divergent``: of the first so many draws."""
    header = ",".join([*OF_SAMPLER, *names, *(f"p_{n}" for n in names), *(f"g_{n}" for n in names)])
    p = np.random.default_rng(0).standard_normal(np.shape(x))
    rows = [
        ",".join(
            f"{v:.{digits}g}" for v in (-1.5, 0.9, 0.8, treedepth, 3, i < divergent, 2.5, *x[i], *p[i], *-score[i])
        )
        for i in range(len(x))
    ]
    half = len(rows) // 2
    lines = [header, *rows[:half], *ADAPTED.splitlines(), *rows[half:]]
    return SETTINGS.format(warmup=warmup, saved=saved, thin=thin) + "\n".join(lines) + "\n" + TIMING
