"""The gradient's paths: what comes down the skip connections alone, and every branch's term (G11)."""


import xarray as xr

from . import captions, curves, scales, score_path, style
from .dataset import array, coordinates, on
from .makers import one_figure

FIGURES = {"identity-path": "the gradient's part that came down the skip connections"}
NEEDS = (
    coordinates("depth sublayer")
    | on("case depth", "skip_share_predicted", "log_skip_predicted")
    | on("case sublayer", "branch_term")
    | on("case", "identity_error")
)


@one_figure("identity-path")
def draw(ds: xr.Dataset) -> style.Page:
    looks, depth = captions.looks(ds), array(ds, "depth")
    figure, ((share, skip, branch),) = style.panels(1, 3, 2.7, style.PAGE)
    points = curves.turns(len(depth), len(looks))
    shares, skips = [], []
    for p, look in enumerate(looks):
        shares.append(curves.select(ds, "skip_share", (p,)))
        curves.draw(share, look, depth, shares[-1], points[p])
        skips.append(curves.norms(curves.select(ds, "log_skip", (p,))))
        curves.draw(skip, look, depth, skips[-1], points[p])
        branch.errorbar(array(ds, "sublayer"), array(ds, "branch_term")[p], 2 * array(ds, "branch_term_stderr")[p],
                        **look.line, linewidth=0.8, elinewidth=0.7)  # fmt: skip
    curves.log_scale([share], shares)
    curves.log_scale([skip], skips)
    branch.set_yscale("log")
    share.set(title="Share of the skip path", ylabel=r"$\|s\|^2/(\|s\|^2+\|r\|^2)$", xlabel="Sublayers passed")
    skip.set(title="Its gradient over the top's", ylabel=r"$\|s_i\|/\|g_{2L}\|$", xlabel="Sublayers passed")
    branch.set(title="Every branch's term", ylabel=r"$\|J_i^T g_{i+1}\|/\|g_{2L}\|$", xlabel="Sublayer (from 0)")
    for axes in (share, skip, branch):
        scales.whole_numbers(axes, 5)
    words = "g = s + r at every depth: s came down the skip connections alone, r took a branch at least once; "
    words += f"largest ‖g − s − r‖/‖g‖ of all runs: {max(array(ds, 'identity_error')):.1e}. Right: measured. "
    return style.finish(figure, curves.both(looks), words + score_path.reading(ds))
