"""What torch has and its exporters have not, while a model is traced: a call of such a function is answered by others that give the same values
and gradients. The comparison that follows an export is with the function itself."""
import contextlib
import math
import os
import sys
import warnings

from ..errors import PACKAGE, need
from . import complexes, composed, convolving, derivatives, distances, draws, losses, matrices, norms, pooling, quantization, recurrent, rejoining, resampling, scattering, special, spectra, tables, tracing, truths, writing
from .tracing import Frozen, NoGrad

LOWEST = -1.7580993408473766  # what selu ends at: its scale times its alpha

@contextlib.contextmanager
def traced(model, rows, takes_gradients=False, inputs=0):
    """A context to trace `model` in, of a batch of so many `inputs`, whose loss takes gradients itself or not. `rows`: tables.without_gradient."""
    torch = need("torch", "exporting")
    distribution = torch.distributions.Distribution
    validates = distribution._validate_args
    distribution.set_default_validate_args(False)  # they look at the data, which is not there
    infer_size, torch._C._infer_size = torch._C._infer_size, broadcast  # theirs, which takes no shape that is open
    try:
        answers = answering(torch, model, rows, takes_gradients, inputs)  # of the functions that the model's files have by name
        with NoGrad.watched(torch), attention_within(torch), adaptive_softmax(torch), stateless(torch), settled(torch), answers:
            yield
    finally:
        distribution.set_default_validate_args(validates)
        torch._C._infer_size = infer_size


def broadcast(first, second):
    """The shape that two have together."""
    torch = need("torch", "exporting")
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    whole = [*longer[:len(longer) - len(shorter)], *(b if int(a) == 1 else a for a, b in zip(longer[len(longer) - len(shorter):], shorter))]
    return torch.Size(whole) if all(isinstance(size, int) for size in whole) else tuple(whole)


@contextlib.contextmanager
def attention_within(torch):
    """torch's own functions of Python, as that of MultiheadAttention, call the fused attention where no mode sees it."""
    functional, (stand_in, real) = torch.nn.functional, (attention(torch), torch.nn.functional.scaled_dot_product_attention)

    def answered(*args, **kwargs):
        result = stand_in(*args, **kwargs)
        return real(*args, **kwargs) if result is NotImplemented else result

    functional.scaled_dot_product_attention = answered
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = real


@contextlib.contextmanager
def adaptive_softmax(torch):
    """The module itself, since it is no function of torch's."""
    kind = torch.nn.AdaptiveLogSoftmaxWithLoss
    real, kind.forward = kind.forward, losses.adaptive(torch)
    try:
        yield
    finally:
        kind.forward = real


@contextlib.contextmanager
def stateless(torch):
    """torch.func.functional_call refuses while anything is traced, of which it knows no harm."""
    tracing, own = torch.jit.is_tracing, torch.nn.utils.stateless.__file__
    torch.jit.is_tracing = lambda: tracing() and sys._getframe(1).f_code.co_filename != own
    try:
        yield
    finally:
        torch.jit.is_tracing = tracing


@contextlib.contextmanager
def settled(torch):
    """A module that is brought where it is, and to the type that it has (self.to(x.device) in a forward pass), is left alone: torch would write to its
    parameters, without a gradient."""
    module = torch.nn.Module
    apply = module._apply

    def apply_if_it_changes(self, fn, recurse=True):
        kinds = {(value.dtype, value.device) for value in (*self.parameters(), *self.buffers())}
        after = [(kind, fn(torch.empty(0, dtype=kind[0], device=kind[1]))) for kind in kinds]
        return self if all(kind == (value.dtype, value.device) for kind, value in after) else apply(self, fn, recurse)

    module._apply = apply_if_it_changes
    try:
        yield
    finally:
        module._apply = apply


def attention(torch):
    """What stands for scaled_dot_product_attention with a dropout, which exporters lose, or of 16 bits, which TorchScript's takes for other types, or
    of heads that share keys, which it has not."""
    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        of_16_bits = (query.dtype in (torch.float16, torch.bfloat16) or torch.is_autocast_enabled("cpu")) and torch.jit.is_tracing()
        if not dropout_p > 0 and not of_16_bits and not (enable_gqa and torch.jit.is_tracing()):
            return NotImplemented
        with tracing.paused():  # sizes are numbers then
            width, groups = int(query.shape[-1]), [int(query.shape[-3]) // int(x.shape[-3]) if enable_gqa else 1 for x in (key, value)]
        if enable_gqa:
            key, value = (x.repeat_interleave(times, x.dim() - 3) for x, times in zip((key, value), groups))
        scores = torch.matmul(query, key.transpose(-2, -1)) * (1 / math.sqrt(width) if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask.logical_not(), float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
        weights = scores.softmax(-1)
        return torch.matmul(torch.nn.functional.dropout(weights, dropout_p) if dropout_p > 0 else weights, value)

    return scaled_dot_product_attention


def answering(torch, model, rows, takes_gradients, inputs):
    """A mode in which what stands for a function is called in its place, and in which results that the model's torch.no_grad keeps without a
    gradient are detached: exporters keep a detach, and not the mode."""
    from torch.overrides import TorchFunctionMode
    answers = {**stand_ins(torch), **draws.stand_ins(torch, draws.Numbers(torch)), torch.nn.functional.scaled_dot_product_attention: attention(torch)}
    picked, parts = scattering.Picked(torch), rejoining.Parts(torch)
    for room in (truths, composed, convolving, derivatives, distances, matrices, pooling, quantization, recurrent, resampling, special, spectra):
        answers |= room.stand_ins(torch)
    answers |= norms.stand_ins(torch, model) | tables.stand_ins(torch, model, rows) | scattering.stand_ins(torch, picked) | losses.stand_ins(torch, picked.origin) | rejoining.stand_ins(torch, parts)
    if takes_gradients:
        answers |= derivatives.of_steps(torch)
    tensor = torch.Tensor
    looks = [getattr(tensor, name) for name in ("item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "__len__")]
    writes, frozen = writing.Writes(torch), Frozen(torch)

    class Answering(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = by_own_names(function, kwargs or {})
            one = of_one(torch, function)
            if one:
                with self:
                    for place in range(len(args[0])):
                        one(*(each[place] if isinstance(each, (list, tuple)) else each for each in args), **kwargs)
                return None
            frozen.note(function, args, kwargs)
            if frozen.those and not is_in_place(function):
                args, kwargs = frozen.taken(args), {name: frozen.taken(value) for name, value in kwargs.items()}
            if complexes.concerns(torch, function, args, kwargs):
                result = complexes.answer(torch, function, args, kwargs)
                return result.detach() if NoGrad.on and isinstance(result, complexes.Pair) else result
            result = writes.answer(answers, function, args, kwargs)
            if result is not NotImplemented:
                return result
            result = answers[function](*args, **kwargs) if function in answers else NotImplemented
            if result is NotImplemented:
                with told_of(torch, sys._getframe(1), function is not tensor.__bool__, tracing.varies(args[0], inputs, function is tensor.__len__)) \
                        if function in looks else contextlib.nullcontext():
                    result = function(*args, **kwargs)
            writes.note(function, args, kwargs, result)
            picked.note(function, args, kwargs, result)
            parts.note(function, args, kwargs, result)
            stops = isinstance(result, torch.Tensor) and result.is_floating_point() and NoGrad.on and any(
                isinstance(value, torch.Tensor) and value.requires_grad for value in complexes.flat([args, *kwargs.values()]))
            if not stops or is_in_place(function):
                return result
            stopped = result.detach()
            writes.note(torch.Tensor.detach, (result,), {}, stopped)
            return stopped

    return Answering()


def of_one(torch, function):
    """What a function that writes to each tensor of a list (torch._foreach_lerp_, of averaged weights) is of one; else None."""
    name = getattr(function, "__name__", "")
    return getattr(torch.Tensor, name.removeprefix("_foreach_"), None) if name.startswith("_foreach_") and name.endswith("_") else None


def by_own_names(function, kwargs):
    """Arguments by torch's names, where they have numpy's, which its functions take as well."""
    if "per_channel" in getattr(function, "__name__", ""):  # quantization's, whose own name is axis
        return kwargs
    return {{"axis": "dim", "keepdims": "keepdim"}.get(name, name): value for name, value in kwargs.items()}


def without_dropout(torch):
    """A mode in which the functions of dropout, which no module's number switches off, leave nothing out."""
    from torch.overrides import TorchFunctionMode
    functional = torch.nn.functional
    drops = {functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d, functional.alpha_dropout,
             functional.feature_alpha_dropout, torch.dropout, torch.feature_dropout, torch.alpha_dropout, torch.feature_alpha_dropout}

    class WithoutDropout(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if function in drops:
                return kwargs["input"] if "input" in kwargs else args[0]
            if function is functional.scaled_dot_product_attention:
                args, kwargs = args[:4], {**dict(zip(("is_causal",), args[5:])), **kwargs, "dropout_p": 0.0}
            return function(*args, **kwargs)

    return WithoutDropout()


@contextlib.contextmanager
def told_of(torch, frame, is_value, varies):
    """Warnings of what is called here are of the model's line, which a mode stands before, or two; what never varies, and truths that torch's modules check
    of their inputs, is no value."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    inside = os.path.dirname(torch.__file__) + os.sep
    own, checks = (inside, PACKAGE), not varies or not is_value and frame.f_code.co_filename.startswith(inside + "nn" + os.sep)
    while frame.f_back and frame.f_code.co_filename.startswith(own):
        checks |= frame.f_code.co_name.startswith("check_")
        frame = frame.f_back
    for warning in said:
        if not checks:
            warnings.warn_explicit(warning.message, warning.category, frame.f_code.co_filename, frame.f_lineno)


def is_in_place(function):
    name = getattr(function, "__name__", "")
    return name.endswith("_") and not name.startswith("__") or name in ("__set__", "__setitem__")


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    functional, tensor = torch.nn.functional, torch.Tensor

    def running(x, dim, join):
        """Of each element and those before it, in as many steps as the length has bits."""
        dim, length, shift = dim % x.dim(), int(x.shape[dim]), 1
        while shift < length:
            later = join(x.narrow(dim, shift, length - shift), x.narrow(dim, 0, length - shift))
            x, shift = torch.cat([x.narrow(dim, 0, shift), later], dim), 2 * shift
        return x

    def cumprod(input, dim, dtype=None):
        return running(input if dtype is None else input.to(dtype), dim, torch.mul) if input.dim() else NotImplemented

    def of_best(better):
        def cumulative(input, dim):
            """Values and places; of equal ones the last, as torch's."""
            if not input.dim():
                return NotImplemented
            places = torch.arange(int(input.shape[dim])).reshape(-1, *[1] * (input.dim() - 1 - dim % input.dim())).expand_as(input)
            dim, length, shift = dim % input.dim(), int(input.shape[dim]), 1
            while shift < length:
                later, earlier = (tuple(x.narrow(dim, start, length - shift) for x in (input, places)) for start in (shift, 0))
                stays = better(later[0], earlier[0])
                input, places = (torch.cat([x.narrow(dim, 0, shift), torch.where(stays, a, b)], dim) for x, a, b in zip((input, places), later, earlier))
                shift *= 2
            return special.ValuesAndIndices(input, places)
        return cumulative

    cummax, cummin = of_best(torch.ge), of_best(torch.le)

    def logcumsumexp(input, dim):
        return running(input, dim, lambda a, b: torch.logsumexp(torch.stack([a, b]), 0)) if input.dim() else NotImplemented

    def logaddexp(input, other):
        return torch.logsumexp(torch.stack(torch.broadcast_tensors(input, other)), 0)

    def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
        if sorter is not None or not isinstance(input, torch.Tensor):
            return NotImplemented
        bounds = sorted_sequence if sorted_sequence.dim() == 1 else sorted_sequence.unsqueeze(-2)
        before = bounds <= input.unsqueeze(-1) if right or side == "right" else bounds < input.unsqueeze(-1)
        return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)

    def bucketize(input, boundaries, *, out_int32=False, right=False):
        return searchsorted(boundaries, input, out_int32=out_int32, right=right)

    def bincount(input, weights=None, minlength=0):
        """Of fewer than `minlength` values: how many more there are depends on the data."""
        if minlength < 1 or not isinstance(input, torch.Tensor):
            return NotImplemented
        found = input.unsqueeze(-1) == torch.arange(minlength)
        return found.to(torch.int64).sum(0) if weights is None else (found.to(weights.dtype) * weights.unsqueeze(-1)).sum(0)

    def floor_divide(input, other):
        """TorchScript's exporter truncates. Not of sizes, which are no less than 0."""
        whole = [value for value in (input, other) if isinstance(value, torch.Tensor) and value.dim()]
        return torch.div(input, other, rounding_mode="floor") if whole and isinstance(input, torch.Tensor) else NotImplemented

    def right_shift(input, other):
        return torch.div(input, 2**other, rounding_mode="floor") if isinstance(input, torch.Tensor) and isinstance(other, int) else NotImplemented

    def softplus(input, beta=1, threshold=20):
        """TorchScript's exporter has no threshold."""
        if beta == 1 and threshold >= 20:
            return NotImplemented
        scaled = input * beta
        return torch.where(scaled > threshold, input, functional.softplus(scaled.clamp(max=threshold)) / beta)

    def one_a_channel(input):
        if input.dim() == 2:
            return torch.ones_like(input)
        ones = torch.ones_like(input[:, :, :1] if input.dim() == 3 else input.flatten(2)[:, :, :1])
        return ones.reshape(*input.shape[:2], *[1] * (input.dim() - 2))

    def of_channels(dimensions):
        """A dropout of whole channels: of a 1 for each."""
        def drop(input, p=0.5, training=True, inplace=False):
            return input * functional.dropout(one_a_channel(input), p) if input.dim() in dimensions and training else NotImplemented
        return drop

    def dropout1d(input, p=0.5, training=True, inplace=False):
        """Two dimensions are one sample's channels."""
        whole = of_channels((3,))(input.unsqueeze(0) if input.dim() == 2 else input, p, training)
        return whole.squeeze(0) if input.dim() == 2 and whole is not NotImplemented else whole

    def alpha_dropout(of_shape):
        def drop(input, p=0.5, training=False, inplace=False):
            """What is left out is where selu ends, and all is scaled so that mean and variance stay (Klambauer 2017). Where dropout is switched off, its 1 is 1."""
            if not training or p == 0 or p == 1:
                return NotImplemented
            scale = ((1 - p) * (1 + p * LOWEST**2)) ** -0.5
            shift, kept = -scale * LOWEST * p, functional.dropout(of_shape(input), p)
            return torch.where(kept == 1, input, torch.where(kept > 0, scale * input + shift, torch.full_like(input, scale * LOWEST + shift)))
        return drop

    def fill_diagonal_(input, fill_value, wrap=False):
        if wrap or input.dim() != 2:
            return NotImplemented
        return input.masked_fill_(torch.arange(input.shape[0])[:, None] == torch.arange(input.shape[1]), fill_value)

    def unflatten(input, dim, sizes):
        """The exporter's has the other dimensions' sizes for constants, the rows' too."""
        if isinstance(dim, str):
            return NotImplemented
        dim %= input.dim()
        return input.reshape(*input.shape[:dim], *sizes, *input.shape[dim + 1:])

    return {tensor.unflatten: unflatten, torch.unflatten: unflatten, torch.cumprod: cumprod, tensor.cumprod: cumprod, torch.cummax: cummax, tensor.cummax: cummax, torch.cummin: cummin, tensor.cummin: cummin,
            torch.logcumsumexp: logcumsumexp, tensor.logcumsumexp: logcumsumexp, torch.logaddexp: logaddexp,
            tensor.logaddexp: logaddexp,
            torch.searchsorted: searchsorted, torch.bucketize: bucketize, torch.bincount: bincount, tensor.bincount: bincount, torch.floor_divide: floor_divide,
            tensor.floor_divide: floor_divide, tensor.__floordiv__: floor_divide, tensor.__rshift__: right_shift, torch.bitwise_right_shift: right_shift,
            functional.softplus: softplus, tensor.fill_diagonal_: fill_diagonal_,
            functional.dropout1d: dropout1d,
            functional.dropout2d: of_channels((2, 3, 4)), functional.dropout3d: of_channels((5,)),
            functional.alpha_dropout: alpha_dropout(torch.ones_like), functional.feature_alpha_dropout: alpha_dropout(one_a_channel),
            tensor.data.__get__: lambda x: x.detach(),
            **dict.fromkeys((tensor.mT.__get__, tensor.H.__get__, tensor.mH.__get__, torch.adjoint, tensor.adjoint), lambda x: x.transpose(-2, -1))}
