#!/usr/bin/env python3
"""Random chains of convolutions, pools, norms and what stands between them, of small odd shapes, one step beside torch in double precision: the
loss, each weight and each running statistic; `--fuse off`, recomputation and another stage have the same bits, the model's order and 16 bits are
as near as rounding; nothing is allocated in a step and the planned peak is the measured one. ZC_CHAINS: how many, ZC_CHAINS_SEED: which ones."""
import array, itertools, json, math, os, random

from product import Case, needs, suite

needs("torch")
import torch
from e2e import read_safetensors
from onnx_write import FLOAT, Graph, value_info, write_safetensors
from torch.nn import functional as F

suite = suite(__doc__)
torch.set_num_threads(1)
CASES, SEED = int(os.environ.get("ZC_CHAINS", 8)), int(os.environ.get("ZC_CHAINS_SEED", 110))
MOST, RATE, TOLERANCE, PAGE = 6000, 0.5, 2e-4, 4096  # MOST: elements of an activation
numbers = itertools.count()


class Net:
    """An ONNX graph and the same in torch: `steps` are (result, operands, function)."""

    def __init__(self, rng, rows, channels, plane):
        self.rng, self.g, self.steps, self.meta, self.statistics, self.text = rng, Graph("main_graph"), [], {}, [], []
        self.rows, self.last = rows, "x"
        self.meta["x"] = torch.empty(rows, channels, *plane, device="meta", dtype=torch.double)
        self.input = (channels, *plane)
        scale = self.parameter("input.scale", [channels, *plane], 0.5)
        bias = self.parameter("input.bias", [channels, *plane], 0.5)
        self.node("Add", [self.node("Mul", ["x", scale], torch.mul), bias], torch.add)

    def shape(self, name=None):
        return tuple(self.meta[name or self.last].shape)

    def parameter(self, name, shape, deviation):
        name = f"{'buffer' if 'running' in name else 'weight'}.{name}.{len(self.g.initializers)}"
        self.meta[name] = torch.empty(*shape, device="meta", dtype=torch.double)
        return self.g.parameter(name, list(shape), deviation)

    def node(self, kind, operands, function, tensors=None, extra=(), **attributes):
        """`tensors`: the operands that torch's function takes, where they are not all."""
        tensors = operands if tensors is None else tensors
        outputs = self.g.op(kind, [*operands, *extra], **attributes)
        name = outputs[0] if isinstance(outputs, list) else outputs
        self.meta[name] = function(*(self.meta[each] for each in tensors))
        self.steps.append((name, tensors, function))
        self.last = name
        return name

    def finish(self):
        self.g.inputs = [value_info("x", FLOAT, [self.rows, *self.input]), value_info("t", FLOAT, list(self.shape()))]
        self.g.outputs = [value_info("loss", FLOAT, [])]
        self.target = self.shape()[1:]
        self.meta["t"] = torch.empty(*self.shape(), device="meta", dtype=torch.double)
        difference = self.node("Sub", [self.last, "t"], torch.sub)
        square = self.node("Mul", [difference, difference], torch.mul)
        self.node("ReduceMean", [square], torch.mean, outputs=["loss"], keepdims=0)

    def forward(self, weights, x, t):
        values = {**weights, "x": x, "t": t}
        for name, operands, function in self.steps:
            values[name] = function(*(values[each] for each in operands))
        return values


def pads(net, rank, most):
    """low, high"""
    return [net.rng.randint(0, most) for _ in range(rank)], [net.rng.randint(0, most) for _ in range(rank)]


def around(low, high):
    """As torch's pad has them, the last dimension first."""
    return [each for pair in reversed(list(zip(low, high))) for each in pair]


def conv(net, out=None, kernel=None, same=False):
    rng, (_, channels, *plane) = net.rng, net.shape()
    rank = len(plane)
    kernel = kernel or [rng.choice((1, 1, 2, 3, 3, 4)) for _ in plane]
    divisors = [d for d in range(1, channels + 1) if channels % d == 0]
    groups = rng.choice([1, 1, channels, rng.choice(divisors)])
    out = out or groups * rng.randint(1, max(1, 12 // groups))
    if out % groups:
        groups = 1
    strides = [1] * rank if same else [rng.choice((1, 1, 1, 2, 3)) for _ in plane]
    dilations = [rng.choice((1, 1, 1, 2)) for _ in plane]
    low, high = pads(net, rank, 2)
    for d, size in enumerate(plane):
        extent = dilations[d] * (kernel[d] - 1) + 1
        if same:
            low[d] = (extent - 1) // 2
            high[d] = extent - 1 - low[d]
        high[d] += max(0, extent - size - low[d] - high[d])
    weight = net.parameter("conv.weight", [out, channels // groups, *kernel], (channels // groups * math.prod(kernel))**-0.5)
    operands = [net.last, weight] + ([net.parameter("conv.bias", [out], 0.3)] if rng.random() < 0.5 else [])
    of = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    net.node("Conv", operands, lambda x, w, b=None: of(F.pad(x, around(low, high)), w, b, strides, 0, dilations, groups), dilations=dilations,
             group=groups, kernel_shape=kernel, pads=low + high, strides=strides)


def transposed(net):
    rng, (_, channels, *plane) = net.rng, net.shape()
    rank = len(plane)
    kernel = [rng.randint(1, 4) for _ in plane]
    groups = rng.choice([1, channels, rng.choice([d for d in range(1, channels + 1) if channels % d == 0])])
    strides, dilations = [rng.randint(1, 3) for _ in plane], [rng.choice((1, 1, 2)) for _ in plane]
    padding = [rng.randint(0, (d * (k - 1)) // 2 if k > 1 else 0) for k, d in zip(kernel, dilations)]
    extra = [rng.randint(0, max(s, d) - 1) for s, d in zip(strides, dilations)]
    sizes = [s * (n - 1) + e + d * (k - 1) + 1 - 2 * p for n, s, e, d, k, p in zip(plane, strides, extra, dilations, kernel, padding)]
    per = rng.randint(1, max(1, 10 // groups))
    if min(sizes) < 1 or math.prod(sizes) * per * groups * net.rows > MOST:
        return
    weight = net.parameter("transposed.weight", [channels, per, *kernel], (channels // groups * math.prod(kernel))**-0.5)
    operands = [net.last, weight] + ([net.parameter("transposed.bias", [per * groups], 0.3)] if rng.random() < 0.5 else [])
    of = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    net.node("ConvTranspose", operands, lambda x, w, b=None: of(x, w, b, strides, padding, extra, groups, dilations), dilations=dilations, group=groups,
             kernel_shape=kernel, pads=padding * 2, strides=strides, output_padding=extra)


def windows(net):
    rng, plane = net.rng, net.shape()[2:]
    kernel = [rng.randint(1, min(4, max(1, size))) for size in plane]
    strides = [rng.randint(1, 4) for _ in plane]
    padding = [rng.randint(0, k // 2) for k in kernel]
    return kernel, strides, padding, rng.random() < 0.4


def max_pool(net):
    kernel, strides, padding, ceil = windows(net)
    dilations = [net.rng.choice((1, 1, 2)) for _ in kernel]
    if any(d * (k - 1) + 1 > n + 2 * p for d, k, n, p in zip(dilations, kernel, net.shape()[2:], padding)):
        return
    of = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]
    net.node("MaxPool", [net.last], lambda x: on_cpu(x, lambda y: of(y, kernel, strides, padding, dilations, ceil)), kernel_shape=kernel, strides=strides,
             pads=padding * 2, dilations=dilations, ceil_mode=int(ceil))


def on_cpu(x, function):
    """Some functions have no shapes of tensors that have none."""
    return function(torch.zeros(x.shape, dtype=torch.double)).to("meta") if x.device.type == "meta" else function(x)


def average_pool(net):
    kernel, strides, padding, ceil = windows(net)
    counts = net.rng.random() < 0.5
    of = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    net.node("AveragePool", [net.last], lambda x: on_cpu(x, lambda y: of(y, kernel, strides, padding, ceil, counts)), kernel_shape=kernel,
             strides=strides, pads=padding * 2, ceil_mode=int(ceil), count_include_pad=int(counts))


def batch_norm(net):
    rows, channels, *plane = net.shape()
    if rows * math.prod(plane) < 8:
        return
    source = net.last
    operands = [source, net.parameter("bn.weight", [channels], 0.8), net.parameter("bn.bias", [channels], 0.3)]
    running = [net.parameter(f"bn.{name}", [channels], deviation) for name, deviation in (("running_mean", 0.0), ("running_var", None))]
    net.node("BatchNormalization", operands + running, lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5), tensors=operands, count=3,
             epsilon=1e-5, momentum=0.9, training_mode=1)
    net.statistics.append((source, *running))


def group_norm(net):
    _, channels, *plane = net.shape()
    groups = net.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
    if channels // groups * math.prod(plane) < 4:
        return
    operands = [net.last, net.parameter("gn.weight", [channels], 0.8), net.parameter("gn.bias", [channels], 0.3)]
    if groups == channels:
        return net.node("InstanceNormalization", operands, lambda x, w, b: F.group_norm(x, groups, w, b, 1e-3), epsilon=1e-3)
    net.node("GroupNormalization", operands, lambda x, w, b: F.group_norm(x, groups, w, b, 1e-3), epsilon=1e-3, num_groups=groups)


def layer_norm(net):
    """Over the channels, as in ConvNeXt."""
    rank, channels = len(net.shape()), net.shape()[1]
    if channels < 3:
        return
    to, back = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    last = net.node("Transpose", [net.last], lambda x: x.permute(to), perm=to)
    operands = [last, net.parameter("ln.weight", [channels], 0.8), net.parameter("ln.bias", [channels], 0.3)]
    normal = net.node("LayerNormalization", operands, lambda x, w, b: F.layer_norm(x, [channels], w, b, 1e-3), axis=-1, epsilon=1e-3)
    net.node("Transpose", [normal], lambda x: x.permute(back), perm=back)


def activation(net):
    kind = net.rng.choice(("relu", "relu", "silu", "leaky", "tanh", "prelu", "hard"))
    x = net.last
    if kind == "silu":
        net.node("Mul", [x, net.node("Sigmoid", [x], torch.sigmoid)], torch.mul)
    elif kind == "prelu":
        channels = net.shape()[1]
        slope = net.parameter("prelu", [channels] + [1] * (len(net.shape()) - 2), 0.3)
        net.node("PRelu", [x, slope], lambda y, w: torch.where(y > 0, y, y * w))
    elif kind == "leaky":
        net.node("LeakyRelu", [x], lambda y: F.leaky_relu(y, 0.125), alpha=0.125)
    else:
        name, function = {"relu": ("Relu", torch.relu), "tanh": ("Tanh", torch.tanh), "hard": ("HardSigmoid", F.hardsigmoid)}[kind]
        net.node(name, [x], function, **({"alpha": 1 / 6} if kind == "hard" else {}))


def residual(net):
    x, shape = net.last, net.shape()
    conv(net, out=shape[1], same=True)
    if net.rng.random() < 0.6:
        net.rng.choice((batch_norm, group_norm, activation))(net)
    if net.rng.random() < 0.3:  # what the other branch sees is not alone
        x = net.node("Relu", [x], torch.relu)
        net.last = net.steps[-2][0]
    net.node("Add", [net.last, x] if net.rng.random() < 0.5 else [x, net.last], torch.add)


def joined(net):
    """DenseNet's concat, on any dimension whose other sizes are alike."""
    x = net.last
    conv(net, same=True)
    net.node("Concat", [x, net.last], lambda a, b: torch.cat([a, b], 1), axis=1)


def sliced(net):
    axis = net.rng.randrange(1, len(net.shape()))
    size = net.shape()[axis]
    step = net.rng.choice((1, 1, 2))
    begin = net.rng.randint(0, max(0, size - 1))
    end = net.rng.randint(begin + 1, size)
    constants = [net.g.constant([each]) for each in (begin, end, axis, step)]
    index = tuple(slice(begin, end, step) if d == axis else slice(None) for d in range(len(net.shape())))
    net.node("Slice", [net.last], lambda x: x[index], extra=constants)


def padded(net):
    rank = len(net.shape())
    low, high = [0] + [net.rng.randint(0, 2) for _ in range(rank - 1)], [0] + [net.rng.randint(0, 2) for _ in range(rank - 1)]
    constants = [net.g.constant(low + high), net.g.constant([0.5], dtype=FLOAT, shape=[])]
    net.node("Pad", [net.last], lambda x: F.pad(x, around(low, high), value=0.5), extra=constants)


def resized(net):
    shape = net.shape()
    sizes = [net.rng.randint(1, 2 * n) for n in shape[2:]]
    if math.prod(shape[:2]) * math.prod(sizes) > MOST:
        return
    linear = len(sizes) < 3 and net.rng.random() < 0.5
    extra = ["", "", net.g.constant([*shape[:2], *sizes])]
    if linear:
        mode = ("linear", "bilinear")[len(sizes) - 1]
        net.node("Resize", [net.last], lambda x: F.interpolate(x, sizes, mode=mode, align_corners=False), extra=extra, mode="linear",
                 coordinate_transformation_mode="half_pixel")
    else:
        net.node("Resize", [net.last], lambda x: F.interpolate(x, sizes, mode="nearest-exact"), extra=extra, mode="nearest",
                 coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")


def squeezed(net):
    """Squeeze and excite."""
    x, (_, channels, *plane) = net.last, net.shape()
    dims = list(range(2, 2 + len(plane)))
    net.node("GlobalAveragePool", [x], lambda y: y.mean(dims, keepdim=True))
    conv(net, out=channels, kernel=[1] * len(plane), same=True)
    net.node("Mul", [x, net.node("Sigmoid", [net.last], torch.sigmoid)], torch.mul)


def shuffled(net):
    """ShuffleNet's channels."""
    rows, channels, *plane = net.shape()
    groups = net.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
    dims = [rows, groups, channels // groups, *plane]
    apart = net.node("Reshape", [net.last], lambda x: x.reshape(dims), extra=[net.g.constant(dims)])
    order = [0, 2, 1, *range(3, 3 + len(plane))]
    turned = net.node("Transpose", [apart], lambda x: x.permute(order), perm=order)
    net.node("Reshape", [turned], lambda x: x.reshape(rows, channels, *plane), extra=[net.g.constant([rows, channels, *plane])])


def scaled(net):
    """A parameter for each channel, of less dimensions; one for each place."""
    _, channels, *plane = net.shape()
    kind = net.rng.randrange(3)
    shape = [[channels] + [1] * len(plane), plane, [1, channels] + [1] * len(plane)][kind]
    kind, function = net.rng.choice((("Mul", torch.mul), ("Add", torch.add)))
    net.node(kind, [net.last, net.parameter("scale", shape, 0.7)], function)


LAYERS = [conv] * 6 + [transposed, max_pool, max_pool, average_pool, average_pool, batch_norm, batch_norm, batch_norm, group_norm, layer_norm] + \
    [activation] * 5 + [residual, residual, joined, sliced, padded, resized, squeezed, shuffled, scaled]


def chain(seed):
    rng = random.Random(seed)
    rank = rng.choice((1, 2, 2, 2, 2, 3))
    plane = [rng.choice((1, rng.randint(1, {1: 24, 2: 9, 3: 5}[rank]), {1: 16, 2: 8, 3: 4}[rank])) for _ in range(rank)]
    net = Net(rng, rng.choice((1, 2, 2, 3)), rng.choice((1, 2, 3, 5, 8, 9, 16, 17)), plane)
    layers = rng.randint(2, 9)
    for _ in range(layers):
        kind = rng.choice(LAYERS)
        if math.prod(net.shape()) <= MOST or kind in (max_pool, average_pool, conv):
            kind(net)
            net.text.append(kind.__name__)
    net.finish()
    return net


def stored(net, path):
    """The weights as they are in the file."""
    raw = path.with_name(path.name + ".data").read_bytes()
    found = {}
    for (name, shape, _), offset in zip(net.g.initializers, net.g.own_ranges()[0]):
        values = array.array("f")
        values.frombytes(raw[offset:offset + 4 * math.prod(shape)])
        found[name] = torch.tensor(values.tolist(), dtype=torch.double).reshape(shape)
    return found


def beside(net, weights, x, t, ranks):
    """The loss and the weights after a step, of as many ranks."""
    own = {name for _, *names in net.statistics for name in names}
    losses, grads, moved = [], {}, {}
    for rank in range(ranks):
        rows = slice(rank * net.rows, (rank + 1) * net.rows)
        leaves = {name: w.clone().requires_grad_(name not in own) for name, w in weights.items()}
        values = net.forward(leaves, x[rows], t[rows])
        values["loss"].backward()
        losses.append(values["loss"].item())
        for name, leaf in leaves.items():
            if leaf.grad is not None:
                grads[name] = grads.get(name, 0) + leaf.grad / ranks
        for source, mean, variance in net.statistics:
            seen = values[source].detach()
            dims = [d for d in range(seen.dim()) if d != 1]
            for name, statistic in ((mean, seen.mean(dims)), (variance, seen.var(dims, unbiased=True))):
                moved.setdefault(name, 0.9 * weights[name] + 0.1 * statistic)  # of the first rank, as in torch's DDP
    after = {name: w - RATE * grads[name] if name in grads else w for name, w in weights.items()}
    return sum(losses) / ranks, {**after, **moved}


class Chain:
    def __init__(self, seed):
        self.net, self.seed = chain(seed), seed
        self.path, self.data = suite.dir / f"{seed}.onnx", suite.dir / f"{seed}.safetensors"
        self.net.g.write(str(self.path), seed, opset=21)
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(2 * self.net.rows, *self.net.input, generator=generator)
        self.t = torch.randn(2 * self.net.rows, *self.net.target, generator=generator)
        write_safetensors(self.data, {name: ("F32", tuple(v.shape), v.numpy().tobytes()) for name, v in (("x", self.x), ("t", self.t))})
        self.weights = stored(self.net, self.path)

    def plan(self, *flags, ranks=1):
        plan = suite.dir / f"{self.seed}-{next(numbers)}.plan"
        return suite.compile(self.path, plan, "--world-size", ranks, "--trainable", "weight.*", "--optimizer", "sgd", "--lr", RATE, *flags)

    def step(self, *flags, ranks=1, threads=1):
        """Its loss, and the file with the weights after it."""
        plan = self.plan(*flags, ranks=ranks)
        out = plan.with_suffix("")
        metrics = suite.train(plan, out, "-n", ranks, "--data", self.data, "--steps", 1, "--threads", threads)
        suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
        return metrics[0]["loss"], out / "exported.safetensors"

    def steady(self, *flags, threads=1):
        """Steps that allocate nothing, in what was planned, of which a kernel need not touch all."""
        plan = self.plan(*flags)
        said = suite.tool("zero-run", plan, "--out", plan.with_suffix(""), "--quiet", "--data", self.data, "--steps", 3, "--threads", threads)
        final = json.loads(said.strip().splitlines()[-1])
        if final["steady_allocations"] != 0:
            raise Case(f"{' '.join(flags)} {threads} threads: {final['steady_allocations']} allocations in steady steps")
        for tier, peak in final["peak_bytes"].items():
            if peak["measured"] > -(-peak["planned"] // PAGE) * PAGE:
                raise Case(f"{' '.join(flags)} {tier}: {peak}")


def as_torch(chain, got, ranks=1):
    """The largest distance, of what is borne: what rounding leaves of a gradient that is none (a bias before a norm) is as large as others are."""
    loss, weights = beside(chain.net, chain.weights, chain.x.double(), chain.t.double(), ranks)
    if not abs(got[0] - loss) <= TOLERANCE * abs(loss):
        raise Case(f"loss {got[0]} instead of {loss}")
    trained = {name: torch.tensor(values, dtype=torch.double).reshape(shape) for name, (_, shape, values) in read_safetensors(got[1]).items()}
    distance = lambda a, b, name: (a[name] - b[name]).abs().max().item()  # noqa: E731
    largest, worst = max(distance(weights, chain.weights, name) for name in trained), 0
    for name in trained:
        update, off = distance(weights, chain.weights, name), distance(trained, weights, name)
        bound = TOLERANCE * (update + largest) + 4e-6 * weights[name].abs().max().item()
        if not off <= bound:
            raise Case(f"{name}: {off} off, of an update of {update}")
        worst = max(worst, off / bound)
    return f"{worst:.2f} of the bound"


def same(what, a, b):
    if a[0] != b[0]:
        raise Case(f"{what}: loss {a[0]} and {b[0]}")
    if a[1].read_bytes() != b[1].read_bytes():
        raise Case(f"{what}: other weights")


def compared(chain, rng):
    on = chain.step()
    worst = as_torch(chain, on)
    same("--fuse off", on, chain.step("--fuse", "off"))
    as_torch(chain, chain.step("--layout", "nchw", threads=2))
    if rng.random() < 0.5:
        same("recomputed", on, chain.step("--checkpoint-activations", rng.choice(("block", "selective"))))
    if rng.random() < 0.5:
        two = chain.step("--zero-stage", rng.choice((0, 1)), ranks=2)
        as_torch(chain, two, 2)
        same("another stage", two, chain.step("--zero-stage", rng.choice((2, 3)), "--offload-optimizer", rng.choice(("host", "none")), ranks=2))
    precision = rng.choice(((), ("--precision", "bf16"), ("--precision", "fp16", "--loss-scale", "16")))
    if precision:
        narrow = chain.step(*precision)
        same("16 bits, --fuse off", narrow, chain.step(*precision, "--fuse", "off"))
        if not abs(narrow[0] - on[0]) <= 5e-2 * abs(on[0]):
            raise Case(f"16 bits: loss {narrow[0]} instead of {on[0]}")
    chain.steady(*precision, threads=rng.choice((1, 2)))
    return worst


def case(seed):
    def run():
        chain = Chain(seed)
        try:
            return compared(chain, random.Random(seed + 1))
        except Exception as failure:
            raise Case(f"[{' '.join(map(str, chain.net.input))} | {', '.join(chain.net.text)}] {failure}")
    return f"chain {seed}", run


suite.run([case(seed) for seed in range(SEED, SEED + CASES)])
suite.finish()
