"""Gradients that a loss takes itself (a penalty of a gradient, a field that is an energy's, an inner step): operators of zero-compile's own while TorchScript
traces, ONNX's Gradient in the file. zero-compile differentiates what they give again."""
import contextlib
import functools

from ..errors import need
from . import norms, recurrent, tracing

TRAINING = "ai.onnx.preview.training"


@functools.cache
def operator():
    """zero::gradient(y, x): of the sum of y's elements by x. The trace has it; its values are torch's own."""
    torch = need("torch", "exporting")
    library = torch.library.Library("zero", "FRAGMENT")
    library.define("gradient(Tensor y, Tensor x) -> Tensor")
    library.impl("gradient", lambda y, x: torch.zeros_like(x), "CompositeExplicitAutograd")
    return library


@contextlib.contextmanager
def kept(torch, opset):
    """A context in which TorchScript's exporter has that operator."""
    operator()
    torch.onnx.register_custom_op_symbolic("zero::gradient", lambda g, y, x: g.op("zero::Gradient", y, x).setType(x.type()), opset)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic("zero::gradient", opset)


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    def grad(outputs, inputs, grad_outputs=None, create_graph=False, **options):
        if not torch.jit.is_tracing():
            return NotImplemented
        outputs, inputs = ((x,) if isinstance(x, torch.Tensor) else tuple(x) for x in (outputs, inputs))
        weights = (grad_outputs,) if grad_outputs is None or isinstance(grad_outputs, torch.Tensor) else tuple(grad_outputs)
        weights += (None,) * (len(outputs) - len(weights))
        with tracing.paused():
            values = torch.autograd.grad(outputs, inputs, weights, create_graph=True, allow_unused=options.get("allow_unused"))
        total = sum(y.sum() if weight is None else (y * weight.detach()).sum() for y, weight in zip(outputs, weights))
        for x, value in zip(inputs, values):
            if value is not None:
                traced = torch.ops.zero.gradient(total, x)
                tracing.rebind(value, traced if create_graph else traced.detach())
        return values

    return {torch.autograd.grad: grad}


def of_steps(torch):
    """What stands for functions whose derivative has none in its turn here: their steps, for losses that take gradients."""
    functional = torch.nn.functional

    def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
        if dim is None or dtype is not None:
            return NotImplemented
        centred = input - input.detach().amax(dim, keepdim=True)
        return centred - centred.exp().sum(dim, keepdim=True).log()

    def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
        if weight is not None or (size_average, reduce) != (None, None) or label_smoothing or target.is_floating_point():
            return NotImplemented
        counts, dim = target != ignore_index, 1 if input.dim() > 1 else 0
        each = -log_softmax(input, dim).gather(dim, target.clamp(min=0).unsqueeze(dim)).squeeze(dim)
        each = torch.where(counts, each, torch.zeros_like(each))
        return each.sum() / counts.sum() if reduction == "mean" else each.sum() if reduction == "sum" else each

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if dropout_p or enable_gqa:
            return NotImplemented
        scores = query @ key.transpose(-2, -1) * (int(query.shape[-1]) ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(int(query.shape[-2]), int(key.shape[-2]), dtype=torch.bool).tril()
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask.logical_not(), float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
        return scores.softmax(-1) @ value

    return {**norms.of_steps(torch), **recurrent.stand_ins(torch, in_steps=True), functional.log_softmax: log_softmax, functional.cross_entropy: cross_entropy, functional.scaled_dot_product_attention: attention,
            torch.log_softmax: log_softmax, torch.Tensor.log_softmax: log_softmax}


def write(proto):
    """The operators as ONNX's Gradient, in onnx.ModelProto `proto`, whose initializers have their names."""
    onnx, graph = need("onnx", "exporting"), proto.graph
    nodes = [node for node in graph.node if node.op_type == "Gradient" and node.domain == "zero"]
    if not nodes:
        return
    read = read_once(onnx, graph, {node.input[1] for node in nodes} & {tensor.name for tensor in graph.initializer})
    for node in nodes:
        y, x = node.input[0], read.get(node.input[1], node.input[1])
        node.CopyFrom(onnx.helper.make_node("Gradient", [x], list(node.output), name=node.name, domain=TRAINING, xs=[x], y=y))
    if TRAINING not in {opset.domain for opset in proto.opset_import}:
        proto.opset_import.append(onnx.helper.make_opsetid(TRAINING, 1))


def read_once(onnx, graph, names):
    """Initializers that a gradient is of, as one tensor each: {name: of it}"""
    read = {name: f"{name}.of_gradient" for name in sorted(names)}
    for node in graph.node:
        node.input[:] = [read.get(name, name) for name in node.input]
    for name, tensor in read.items():
        graph.node.insert(0, onnx.helper.make_node("Identity", [name], [tensor], name=tensor))
    return read
