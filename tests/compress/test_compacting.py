"""A compact network predicts what the pruned dense one does, is as small as it says, and survives its file."""

import copy
import importlib.util
import json
import zlib

import pytest
import torch
from torch import nn

from varnet import predicting, variational
from varnet.compress import packed as compress
from varnet.compress.compacting import compact, deterministic
from varnet.compress.csr import SparseConv2d, SparseLinear
from varnet.compress.onnx import run_onnx, to_exported, to_onnx
from varnet.compress.packed import load, save
from varnet.compress.units import reduce
from varnet.errors import ExportError
from varnet.evaluation.pruning import prune
from varnet.nn.layers import layers_of
from varnet.nn.networks import build

needs_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(p) is None for p in ("onnx", "onnxscript", "onnxruntime")),
    reason="pip install 'varnet[export]'",
)


def trained(name: str, in_shape, density: float, param: str = "additive", width: float = 0.2, **options) -> nn.Module:
    """A network as training might leave it: log alpha on both sides of 3, batch norm with a history."""
    model = build(name, in_shape, 4, layers="all", param=param, width=width, **options)
    for layer in layers_of(model).values():
        weight = layer.mu.data.mul_(10)
        log_alpha = torch.where(torch.rand_like(weight) < density, -4.0, 4.0)
        if param == "additive":
            layer.log_sigma2.data = log_alpha + weight.square().log()
        else:
            layer.log_alpha.data = log_alpha
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            norm.weight.data.uniform_(0.5, 2)
            norm.bias.data.normal_()
    return model


def reference(model: nn.Module, x: torch.Tensor, threshold: float = 3.0) -> torch.Tensor:
    """The model itself with the noisy weights erased."""
    erased = prune(model, 0.0)  # a copy
    with torch.no_grad():
        for layer in layers_of(erased).values():
            layer.param.erase(layer, (layer.posterior().log_alpha >= threshold).expand(layer.weight_shape))
        with predicting(erased, "deterministic"):
            return erased(x)


def same(a: torch.Tensor, b: torch.Tensor) -> None:
    """To 1e-5 of the largest output."""
    assert a.shape == b.shape and float((a - b).abs().max()) <= 1e-5 * max(1.0, float(b.abs().max()))


CASES = [
    ("lenet300", (1, 8, 8), {"width": 1.0}),
    ("lenet5", (1, 20, 20), {"width": 1.0}),
    ("lenet5", (1, 16, 16), {"activation": "tanh"}),
    ("lenet5", (1, 16, 16), {"activation": "leaky_relu", "bias": True, "batch_norm": False}),
    ("vgg", (3, 32, 32), {"width": 0.1, "bias": False}),
    ("fc", (6,), {"sizes": (150, 100), "dropout": True}),
]


@pytest.mark.parametrize("param", ["additive", "weight"])
@pytest.mark.parametrize(("name", "in_shape", "options"), CASES)
def test_predictions_are_those_of_the_pruned_network(name, in_shape, options, param):
    model = trained(name, in_shape, 0.02 if options.get("width") == 1.0 else 0.1, param, **options)
    x = torch.randn(5, *in_shape)
    expected = reference(model, x)
    assert float(expected.std(0).max()) > 1e-3, "the outputs must depend on the inputs"
    for sparse in (True, False):
        net = compact(model, sparse=sparse)
        same(net(x), expected)
        same(net(x[:1]), expected[:1])  # another kernel
    same(deterministic(model)(x), expected)
    assert sum(r.kept for r in net.report.rows) < sum(r.nonzero for r in net.report.rows), "nothing was removed"


def test_csr_is_used_where_it_is_worthwhile_and_nowhere_else():
    rows = compact(trained("lenet5", (1, 28, 28), 0.02, width=1.0)).report.rows
    formats = {r.layer: r.format for r in rows}
    expected = "CSR" if torch.backends.mkl.is_available() else "dense"
    assert formats == {"conv1": "dense", "conv2": expected, "dense1": expected, "dense2": "dense"}
    assert {r.format for r in compact(trained("lenet5", (1, 28, 28), 0.5, width=1.0)).report.rows} == {"dense"}


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"padding": (0, 2), "dilation": (2, 1)}])
def test_a_sparse_convolution_is_the_convolution(options):
    conv = nn.Conv2d(3, 6, (3, 2), **options)
    conv.weight.data *= torch.rand_like(conv.weight) < 0.2
    sparse = SparseConv2d(conv)
    with torch.no_grad():
        for size in ((9, 8), (7, 11)):  # the matrix is made anew for another size
            for batch in (1, 4):
                x = torch.randn(batch, 3, *size)
                same(sparse(x), conv(x))
        torch.testing.assert_close(sparse.to_dense().weight, conv.weight, rtol=0, atol=0)
    with pytest.raises(ValueError, match="3 channels, got 2"):
        sparse(torch.randn(1, 2, 9, 8))


def test_sparse_layers_can_be_copied_and_moved_after_use():
    net = compact(trained("lenet5", (1, 16, 16), 0.02, width=1.0))
    x = torch.randn(3, 1, 16, 16)
    with torch.inference_mode():
        before = net(x)
    twin = copy.deepcopy(net)
    assert torch.equal(twin(x), before)
    same(twin.double()(x.double()).float(), before)
    x.requires_grad_()
    net(x).sum().backward()
    assert x.grad.abs().max() > 0


def test_a_sparse_linear_layer_is_the_linear_layer():
    linear = nn.Linear(7, 5, bias=False)
    linear.weight.data *= torch.rand_like(linear.weight) < 0.3
    sparse = SparseLinear(linear)
    with torch.no_grad():
        for shape in ((4, 7), (1, 7), (2, 3, 7)):
            x = torch.randn(shape)
            same(sparse(x), linear(x))


def shapes(net: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(m.weight.shape) for m in net if isinstance(m, nn.Linear | nn.Conv2d)]


def test_dead_and_unused_units_are_removed_in_turn():
    """Unit 1 of the first layer only feeds unit 0 of the second, which nothing uses; unit 0 is constant."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2))
    with torch.no_grad():
        net[0].weight[0] = 0
        net[2].weight.copy_(torch.tensor([[1.0, 2.0, 0.0], [3.0, 0.0, 4.0]]))
        net[4].weight[:, 0] = 0
        x = torch.randn(6, 2)
        small = compact(net)
        same(small(x), net(x))
    assert shapes(small) == [(1, 2), (1, 1), (2, 1)]
    assert [(r.weights, r.nonzero, r.kept) for r in small.report.rows] == [(6, 4, 2), (6, 4, 1), (4, 2, 2)]


@pytest.mark.parametrize(("padding", "bias", "mode", "left"), [
    (0, 0.7, "zeros", 2), (1, 0.7, "zeros", 3), (1, -0.7, "zeros", 2), (1, 0.7, "circular", 2),
    ("same", 0.7, "zeros", 3), ("valid", 0.7, "zeros", 2),
])  # fmt: skip
def test_a_constant_filter_goes_unless_padding_would_show(padding, bias, mode, left):
    following = nn.Conv2d(3, 2, 3, padding=padding, padding_mode=mode, bias=False)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.ReLU(), following, nn.Flatten(), nn.LazyLinear(2))
    net(torch.randn(1, 1, 12, 12))
    with torch.no_grad():
        net[0].weight[1], net[0].bias[1] = 0, bias
        x = torch.randn(3, 1, 12, 12)
        small = compact(net)
        same(small(x), net(x))
    assert shapes(small)[:2] == [(left, 1, 3, 3), (2, left, 3, 3)]


def test_a_channel_is_a_block_of_the_inputs_of_a_dense_layer():
    net = nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 9, 4))
    with torch.no_grad():
        net[3].weight[:, 9:18] = 0  # nothing uses channel 1
        net[0].weight[2] = 0  # channel 2 is constant
        net[0].bias[2] = 0.5
        x = torch.randn(5, 1, 4, 4)
        small = compact(net)
        same(small(x), net(x))
    assert shapes(small) == [(1, 1, 2, 2), (4, 9)]


def test_a_layer_keeps_one_unit_when_all_could_go():
    """The only path is cut: what remains is a constant, and still a network."""
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():
        net[2].weight[:, 1:] = 0
        net[2].weight[1:] = 0
        net[4].weight[:, 0] = 0  # the only unit with inputs is the one that nothing uses
        x = torch.randn(6, 2)
        small = compact(net)
        same(small(x), net(x))
    assert shapes(small) == [(1, 2), (1, 1), (2, 1)] and [r.kept for r in small.report.rows] == [0, 0, 0]


def test_layers_whose_units_do_not_keep_to_themselves_are_left_alone():
    grouped = nn.Sequential(nn.Conv2d(2, 4, 1, groups=2), nn.ReLU(), nn.Conv2d(4, 2, 1))
    averaged = nn.Sequential(nn.Conv2d(1, 3, 1), nn.AvgPool2d(3, padding=1), nn.Conv2d(3, 2, 1))
    divided = nn.Sequential(nn.Conv2d(1, 3, 1), nn.AvgPool2d(2, divisor_override=3), nn.Conv2d(3, 2, 1))
    softmax = nn.Sequential(nn.Linear(2, 3), nn.Softmax(1), nn.Linear(3, 2))
    in_time = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    pooled = nn.Sequential(nn.Linear(4, 6), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6, 2))
    image = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Conv2d(2, 2, 1))
    for net, x in (
        (grouped, torch.randn(2, 2, 4, 4)),
        (averaged, torch.randn(2, 1, 5, 5)),
        (divided, torch.randn(2, 1, 4, 4)),
        (softmax, torch.randn(4, 2)),
        (in_time, torch.randn(5, 4, 2)),
        (pooled, torch.randn(5, 1, 4, 4)),
        (image, torch.randn(5, 2, 4, 4)),
    ):
        with torch.no_grad():
            net[0].weight[1] = 0
            before = shapes(net)
            small = compact(net)
            same(small(x), net(x))
        assert shapes(small) == before


def test_activations_in_place_and_layers_used_twice():
    relu, twice = nn.ReLU(inplace=True), nn.Linear(8, 8)
    net = nn.Sequential(nn.Linear(6, 8), relu, twice, relu, twice, nn.LeakyReLU(inplace=True), nn.Linear(8, 3))
    x = torch.randn(5, 6)
    with torch.no_grad():
        twice.weight[2] = 0
        expected = net(x)
        same(compact(net)(x), expected)
        same(net(x), expected)


def test_a_weight_that_the_model_takes_as_zero_stays_zero():
    model = variational(nn.Sequential(nn.Linear(20, 5)), param="weight", threshold=3.0)
    model[0].log_alpha.data.uniform_(-2, 8)
    x = torch.randn(4, 20)
    with torch.no_grad(), predicting(model, "deterministic"):
        expected = model(x)
    for threshold in (3.0, 6.0, None):
        same(compact(model, threshold)(x), expected)
    assert compact(model, 1.0).report.compression > compact(model, 6.0).report.compression


def test_the_given_model_is_left_alone_and_reduce_takes_plain_layers():
    model = trained("lenet5", (1, 16, 16), 0.1)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    compact(model)
    assert model.training and all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    stages = {"a": nn.Linear(2, 3), "b": nn.Linear(3, 2)}
    stages["a"].weight.data[0] = 0
    with torch.no_grad():
        reduce(stages)
    assert stages["a"].out_features == stages["b"].in_features == 2


@pytest.mark.parametrize("name", ["zeros already", "plain", "layer-wise"])
def test_other_sources_of_zeros(name):
    if name == "plain":
        model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        model[0].weight.data[model[0].weight.abs() < 0.2] = 0
    else:
        param = "layer" if name == "layer-wise" else "additive"
        model = variational(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), param=param)
        model = prune(model, 0.6)
    x = torch.randn(4, 6)
    with torch.no_grad(), predicting(model, "deterministic"):
        expected = model(x)
    for threshold in (3.0, None):
        net = compact(model, threshold)
        same(net(x), expected)
    assert net.report.compression > 1.2


def test_the_report_counts_as_the_papers_do(tmp_path):
    model = trained("lenet300", (1, 28, 28), 0.02, width=1.0)
    kept = [int((layer.posterior().log_alpha < 3).sum()) for layer in layers_of(model).values()]
    sizes = [layer.weight_shape.numel() for layer in layers_of(model).values()]
    net = compact(model)
    report = net.report
    assert [r.nonzero for r in report.rows] == kept and report.compression == pytest.approx(sum(sizes) / sum(kept))
    save(net, tmp_path / "compact.pt")
    torch.save(deterministic(model).state_dict(), tmp_path / "dense.pt")
    assert report.compact_bytes == (tmp_path / "compact.pt").stat().st_size
    assert report.original_bytes == pytest.approx((tmp_path / "dense.pt").stat().st_size, rel=0.001)  # its file name
    assert report.compact_bytes < 7 * sum(kept) + 4 * 410 + 2000 < report.original_bytes / 20
    shown = str(report)
    assert f"{report.compression:.1f}" in shown and f"{report.compact_bytes:,}" in shown
    assert all(r.layer in shown and f"{r.nonzero:,}" in shown for r in report.rows)


@pytest.mark.parametrize(("name", "in_shape", "options"), CASES[:3] + CASES[5:])
def test_a_file_gives_the_same_network_back(tmp_path, name, in_shape, options):
    net = compact(trained(name, in_shape, 0.1, **options))
    save(net, tmp_path / "compact.pt")
    again, x = load(tmp_path / "compact.pt"), torch.randn(3, *in_shape)
    assert torch.equal(again(x), net(x)) and again.report == net.report and not again.training
    assert [type(m) for m in again] == [type(m) for m in net]
    same(load(tmp_path / "compact.pt", sparse=False)(x), net(x))
    assert [p.name for p in tmp_path.iterdir()] == ["compact.pt"]


def test_gaps_of_every_size_survive_the_file(tmp_path):
    """Nonzero weights 1, 300 and 40,000 apart need one, two and four bytes."""
    for gap in (1, 300, 40_000):
        net = nn.Sequential(nn.Linear(100_000, 2))
        with torch.no_grad():
            net[0].weight.zero_()
            net[0].weight.view(-1)[::gap] = 1 + torch.rand(-(-200_000 // gap))
        save(compact(net), tmp_path / "compact.pt")
        found = load(tmp_path / "compact.pt", sparse=False)
        assert torch.equal(found[0].weight, net[0].weight) and torch.equal(found[0].bias, net[0].bias)


def test_damaged_and_strange_files_are_one_sentence(tmp_path):
    path = tmp_path / "compact.pt"
    save(compact(nn.Sequential(nn.Linear(30, 20))), path)
    whole = path.read_bytes()
    state = torch.load(path, weights_only=True)
    contents = [b"", whole[: len(whole) // 2], b"not a file of torch"]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match="no compact network"):
            load(path)
    short = {**state, "data": state["data"][:-40]}
    for strange in ({"model": {}}, {**state, "format": "another"}, short, {**state, "head": 5}, [1]):
        torch.save(strange, path)
        with pytest.raises(ValueError, match="no compact network"):
            load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nowhere.pt")


class Residual(nn.Module):
    def forward(self, x):
        return x


class Skip(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Scaled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_forward_hook(lambda _module, _inputs, output: 2 * output)
    return model


def replaced() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].forward = lambda x: x
    return model


def emptied() -> nn.Sequential:
    return variational(nn.Sequential(nn.Linear(2, 2)), param="weight", log_alpha=5.0, threshold=3.0)


def colliding() -> nn.Sequential:
    model = nn.Sequential()
    model.add_module("a", nn.Sequential())
    model.a.add_module("b", nn.Linear(2, 2))
    model.add_module("a_b", nn.Linear(2, 2))
    return model


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (nn.Linear(2, 2), {}, "nn.Sequential"),
        (nn.Sequential(nn.Linear(2, 2)), {"threshold": "high"}, "threshold=high is invalid: use a finite number"),
        (nn.Sequential(nn.Linear(2, 2), Residual()), {}, "layer '1' is a Residual"),
        (Skip(nn.Linear(2, 2)), {}, "a Skip cannot"),
        (nn.Sequential(Skip(nn.Linear(2, 2))), {}, "layer '0' is a Skip"),
        (nn.Sequential(Scaled(2, 2)), {}, "layer '0' is a Scaled"),
        (hooked(), {}, "layer '0' has forward hooks"),
        (replaced(), {}, "layer '0' is a Linear, which"),
        (colliding(), {}, "two layers would be called 'a_b'"),
        (emptied(), {"threshold": 9.0}, "below threshold=3.0.*: train with"),
        (nn.Sequential(nn.ReLU()), {}, "no Linear or Conv2d"),
        (variational(nn.Sequential(nn.Conv1d(2, 2, 1))), {}, "layer '0' is a Conv1d, which cannot be made compact"),
        (nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)), {}, "layer '0' is batch norm"),
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, track_running_stats=False)), {}, "running averages"),
        (variational(nn.Sequential(nn.Linear(2, 2)), param="zero_mean"), {}, "layer '0' has no weight left"),
        (variational(nn.Sequential(nn.Linear(2, 2)), log_alpha=5.0), {}, "raise threshold"),
    ],
)
def test_wrong_input_is_one_sentence(model, options, words):
    with pytest.raises(ValueError, match=words) as caught:
        compact(model, **options)
    assert "\n" not in str(caught.value)


def test_random_biases_and_held_dropout():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    expected = net.eval()(x)
    variational(net, param="weight", log_alpha=-3.0, random_bias=True, hold_dropout=True)
    torch.testing.assert_close(compact(net)(x), expected)


def test_nested_networks_and_an_empty_batch():
    net = nn.Sequential(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), nn.Sequential(nn.Linear(2, 2)))
    assert list(compact(net)._modules) == ["0_0", "0_1", "1_0"]
    model = trained("lenet5", (1, 28, 28), 0.02, width=1.0)
    assert compact(model)(torch.randn(0, 1, 28, 28)).shape == (0, 4)


def test_torch_export_gives_the_same_predictions_for_any_batch():
    net = compact(trained("lenet5", (1, 16, 16), 0.02, width=1.0))
    program = to_exported(net, (1, 16, 16)).module()
    for batch in (1, 5):
        x = torch.randn(batch, 1, 16, 16)
        same(program(x), net(x))


@needs_onnx
def test_onnxruntime_gives_the_same_predictions_for_any_batch(tmp_path, capsys):
    for name, in_shape in (("lenet300", (1, 8, 8)), ("lenet5", (1, 16, 16))):
        net = compact(trained(name, in_shape, 0.1))
        to_onnx(net, tmp_path / "compact.onnx", in_shape)
        for batch in (1, 5):
            x = torch.randn(batch, *in_shape)
            same(run_onnx(tmp_path / "compact.onnx", x), net(x))
    assert [p.name for p in tmp_path.iterdir()] == ["compact.onnx"] and capsys.readouterr().out == ""


def test_what_is_not_compact_is_not_exported():
    for given in (nn.Sequential(nn.Linear(2, 2)), variational(nn.Linear(2, 2))):
        with pytest.raises(TypeError, match=r"is not a compact network: give what varnet\.compact makes of it"):
            to_exported(given, (2,))


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    net = compact(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(ExportError, match=r"onnx and onnxscript.*varnet\[export\]"):
        to_onnx(net, tmp_path / "compact.onnx", (2,))
    with pytest.raises(ExportError, match=r"onnxruntime.*varnet\[export\]"):
        run_onnx(tmp_path / "compact.onnx", torch.zeros(1, 2))
    assert not list(tmp_path.iterdir())


# ---- files of a stranger


def described(path, change) -> int:
    """Give a file another description of its layers; returns its size."""
    state = torch.load(path, weights_only=True)
    data = state["data"].numpy().tobytes()
    head = json.loads(zlib.decompress(data[: state["head"]]))
    change(head)
    new = zlib.compress(json.dumps(head).encode())
    content = torch.frombuffer(bytearray(new + data[state["head"] :]), dtype=torch.uint8)
    torch.save({**state, "head": len(new), "data": content}, path)
    return path.stat().st_size


LARGE = {
    "a shape": lambda layer: layer.update(shape=[1_200_000_000, 1]),
    "a shape of few weights": lambda layer: layer.update(shape=[1_200_000_000, 1], nonzero=0, gap="uint8"),
    "many weights": lambda layer: layer.update(nonzero=10**9, gap="uint8"),
    "no number": lambda layer: layer.update(shape=["9" * 20, 1]),
    "below zero": lambda layer: layer.update(shape=[-(2**20), -(2**20)]),
}


@pytest.mark.parametrize("change", LARGE.values(), ids=LARGE)
def test_a_file_that_describes_gigabytes_is_refused_before_they_are_made(tmp_path, monkeypatch, change):
    path = tmp_path / "compact.pt"
    save(compact(nn.Sequential(nn.Linear(30, 20))), path)
    assert described(path, lambda head: change(head["layers"][0])) < 10_000
    monkeypatch.setattr(compress, "unpack", lambda *_: pytest.fail("was made"))
    with pytest.raises(ValueError, match=r"no compact network.*(describes layers of [\d,]+ bytes|no whole numbers)"):
        load(path)


def test_memory_that_a_file_may_take_can_be_given(tmp_path):
    path = tmp_path / "compact.pt"
    save(compact(nn.Sequential(nn.Linear(30, 20))), path)
    assert described(path, lambda head: None) and load(path, most=10_000)
    with pytest.raises(ValueError, match=r"layers of 2,480 bytes, more than the 1,000 of such a file"):
        load(path, most=1000)
