"""What is left of a finished run without its noisy weights, as a small and fast network:

python scripts/compress.py RUN [out=FOLDER threshold=3 ...]

RUN is a run's folder or the name of a stored network, best one trained with param=additive or param=weight. Weights
with log alpha at or above the threshold are removed, then the units that they leave idle. Prints layers, size on disk,
speed against the dense network (ratios within this run) and test accuracy; writes compact.pt (varnet.packed.load),
compact.onnx and compact.json.

threshold=3     of log alpha; weights from the run's own param.threshold on are 0 in any case; null: remove only those
                that are 0 already
out=null        folder of the files; null: the run's folder
data_dir=null   folder of the datasets; null: the run's own
model.target=null, dataset.target=null, likelihood.target=null   import paths of a run of model=custom, dataset=custom
                or likelihood=custom, given again: a folder alone names no code
threads=1       CPU threads
repeats=100     rounds of the measurement of speed; 0: leave it out
"""

import json
from dataclasses import asdict
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from varnet.base.invocation import as_typed

DEFAULTS = {
    "threshold": 3.0, "out": None, "data_dir": None, "model": {"target": None}, "dataset": {"target": None},
    "likelihood": {"target": None},
    "threads": 1, "repeats": 100,
}  # fmt: skip


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(as_typed(__doc__), end="")
        return 0 if arguments else 2

    from varnet.base.device import tune_cpu
    from varnet.launch.ending import guarded
    from varnet.runs.opening import check_classes, open_finished
    from varnet.runs.overrides import named_code
    from varnet.runs.shelf import home

    def work() -> None:
        options = settings(arguments[1:])
        tune_cpu(options.threads)
        run = open_finished(Path(arguments[0]), options.data_dir, named_code(options))
        check_classes(run, "compress, whose report is of accuracies; varnet.compact takes the network")
        folder = Path(options.out) if options.out else home(Path(arguments[0]))
        show(*compressed(run, options, folder), folder)

    return guarded(work)


def settings(overrides: list[str]) -> DictConfig:
    from varnet.base.checks import FOLDER, number, or_null, whole
    from varnet.runs.overrides import CODE, overridden

    checks = CODE | {
        "threshold": or_null(number()), "threads": whole(1, 1024), "repeats": whole(0, 10**6),
        "out": or_null(FOLDER), "data_dir": or_null(FOLDER),
    }  # fmt: skip
    return overridden(OmegaConf.create(DEFAULTS), overrides, checks)


def compressed(run, options: DictConfig, folder: Path) -> tuple:
    """(compact network, results), its files written."""
    from varnet.base.files import write_atomically
    from varnet.bench.compress import speed
    from varnet.compress.compacting import binding, compact, deterministic
    from varnet.compress.packed import save
    from varnet.evaluation import metrics
    from varnet.evaluation.predictions import CPU_ROWS, predict

    net = compact(run.model, options.threshold)
    folder.mkdir(parents=True, exist_ok=True)
    batches = run.data.loader("test", min(CPU_ROWS, len(run.data.test_y)))
    found = {key: predict(model, batches, "deterministic") for key, model in (("before", run.model), ("after", net))}
    report = net.report
    results = {
        "threshold": binding(options.threshold, run.cfg.param.get("threshold")), "compression": report.compression,
        "layers": [asdict(r) for r in report.rows], "original_bytes": report.original_bytes,
        "compact_bytes": report.compact_bytes,
        "accuracy": {key: metrics.accuracy(p.log_probs, p.y) for key, p in found.items()},
        "test_objects": len(run.data.test_y),
        "speed": None if not options.repeats else
        speed(deterministic(run.model, options.threshold), net, run.data.in_shape, options.repeats),
    }  # fmt: skip
    save(net, folder / "compact.pt")
    results["onnx"] = onnx(net, folder / "compact.onnx", next(iter(batches))[0])
    write_atomically(folder / "compact.json", (json.dumps(results, indent=2) + "\n").encode())
    return net, results


def onnx(net, path: Path, x) -> str:
    """Write the file and try it; the sentence that is printed about it."""
    from varnet.compress.onnx import run_onnx, to_onnx
    from varnet.errors import ExportError

    try:
        to_onnx(net, path, x.shape[1:])
        difference = float((run_onnx(path, x) - net(x)).abs().max())
        return f"compact.onnx: {path.stat().st_size:,} bytes, in onnxruntime the same outputs to {difference:.1g}"
    except ExportError as error:
        return f"compact.onnx: {'not tried' if path.exists() else 'not written'}; {error}"


def show(net, results: dict, folder: Path) -> None:
    report, accuracy = net.report, results["accuracy"]
    print(report)
    if all(row.nonzero == row.weights for row in report.rows):
        print(
            f"no weight is 0 or has log alpha >= {results['threshold']}, so there is nothing to remove: "
            "train with param=additive, or lower threshold"
        )
    if results["speed"]:
        ratios = (f"{v:.2f} ({k.removeprefix('times faster, ')})" for k, v in results["speed"].items() if "faster" in k)
        print(f"times faster than the dense network: {', '.join(ratios)}")
    print(
        f"test accuracy, deterministic, {results['test_objects']} objects: {accuracy['before']:.2f} % before, "
        f"{accuracy['after']:.2f} % after"
    )
    print(results["onnx"])
    print(f"written: {folder / 'compact.pt'} and compact.json beside it")
