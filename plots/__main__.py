"""python -m plots RESULTS_DIR --out FIGURES_DIR"""

import argparse
import sys
from pathlib import Path

from matplotlib.figure import Figure

from plots import (
    agreement,
    angular,
    attenuation,
    bound_ratios,
    bound_width,
    certificate,
    convergence,
    crossover,
    dilution,
    gradient,
    gradient_depth,
    identity_path,
    ladder,
    massive,
    power,
    probe,
    results,
    score_path,
    token_cosine,
    variance,
    weight_gradients,
    wrong_theories,
)

KINDS = (variance, token_cosine, dilution, agreement, power, angular, convergence, gradient, weight_gradients,
         score_path, gradient_depth, attenuation, identity_path, crossover, bound_ratios, bound_width, massive,
         probe, certificate, wrong_theories, ladder)  # fmt: skip


def save(figure: Figure, path: Path) -> list[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg")]
    figure.savefig(written[0])
    figure.savefig(written[1], metadata={"Date": None})
    return written


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m plots", description="Draws Periscope's result files.")
    parser.add_argument("results", type=Path, help="folder that is searched for result files (*.nc)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures, as PNG and as SVG")
    arguments = parser.parse_args()
    files = sorted(arguments.results.rglob("*.nc"))
    if not files:
        print(f"{arguments.results}: no result file (*.nc) found", file=sys.stderr)
        return 3
    status = 0
    for file in files:
        try:
            result = results.read(file)
        except results.ResultError as error:
            print(error, file=sys.stderr)
            status = 3
            continue
        kinds = [kind for kind in KINDS if all(name in result for name in kind.NEEDS)]
        if not kinds:
            print(f"{file}: holds nothing that a figure shows", file=sys.stderr)
        folder = arguments.out / file.parent.relative_to(arguments.results)
        for kind in kinds:
            for name, figure in kind.draw(result):
                for path in save(figure, folder / f"{file.stem}-{name}"):
                    print(path)
    return status


if __name__ == "__main__":
    sys.exit(main())
