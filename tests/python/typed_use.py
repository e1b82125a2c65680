"""User code that mypy checks; it is never run."""

import numpy as np
import xarray as xr

import periscope as ps


def use() -> None:
    cfg = ps.Config({"model": {"placement": ["pre", "peri"], "layers": 6, "width": 128}, "run": {"seeds": 8}})
    ds: xr.Dataset = ps.propagate(cfg, backward=True, progress=True)
    ds = ps.theory(model={"layers": 96, "placement": "peri", "mlp": "gelu"}, init={"std": [0.02, 0.03]})
    ds = ps.propagate("run.toml", theory_set={"model.rope": False}, memory="8G", out="results/mine", check=True)
    ds = ps.probe("DIR", text="README.md", tokenizer=lambda text: [len(text)])
    mine = ps.Model(cfg.replace(model={"placement": "pre"}), {"embedding.weight": np.zeros((3, 3))})
    ds = ps.probe(mine, tokens=[5, 9])
    ds = ps.train(cfg, corpus="FILE", callback=lambda record: record.step < 500 and record.loss < 9.0)
    ds = ps.certify(ps.Config(), format=["fp16"])
    sweep: ps.Sweep = ps.sweep("propagate", cfg, backward=True, grid={"model.layers": [6]}, zip={"run.seed": range(2)})
    ds = sweep.run(threads=2, progress=True).gather(partial=True, columns=["verdict"])
    worst: float = ps.verdicts(ds, all=True)["worst_z"].max()
    print(ps.cite(ds) + ps.cite(), ps.placements().loc["peri"], ps.recipes().extras)
    ps.plot(ds, "variance").savefig("variance.svg")
    print([found.tensor for found in ps.check(mine, ignore=["eps"])])
    ps.assert_healthy("DIR")
    seen: list[float] = []

    def watch(snapshot: ps.Snapshot) -> None:
        seen.append(snapshot.share + (snapshot.seconds_left or worst))

    try:
        ps.open("results/mine/propagate.nc")
        ps.verify(cases=100, progress=watch)
    except ps.ConfigError as error:
        print(error.key, error.found, error.expected, error.exit_code)
    except ps.CheckFailed as failed:
        print(failed.dataset.attrs["exit_code"])
