"""Norms as their steps: rms norms and batch norms without running statistics, which exporters refuse, and all where a loss takes gradients, whose derivative no
operator's has."""
from . import tracing


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    def batch_norm(input, running_mean=None, running_var=None, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
        return of_batch(input, weight, bias, eps) if running_mean is None and training else NotImplemented

    def rms_norm(input, normalized_shape, weight=None, eps=None):
        dims = list(range(-len(normalized_shape), 0))
        return scaled(input * (input.pow(2).mean(dims, keepdim=True) + (torch.finfo(input.dtype).eps if eps is None else eps)).rsqrt(), weight, None)

    def layer_norm(input, normalized_shape, *args, **kwargs):
        """Of sizes that the trace has: (x.size(-1),)."""
        if not any(isinstance(size, torch.Tensor) for size in normalized_shape):
            return NotImplemented
        return torch.nn.functional.layer_norm(input, [int(size) for size in normalized_shape], *args, **kwargs)

    return {torch.nn.functional.layer_norm: layer_norm, torch.nn.functional.batch_norm: batch_norm, torch.nn.functional.rms_norm: rms_norm, torch.rms_norm: rms_norm}


def of_steps(torch):
    """What stands for all of them."""
    functional = torch.nn.functional

    def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
        return scaled(normalized(input, list(range(-len(normalized_shape), 0)), eps), weight, bias)

    def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
        groups = normalized(input.reshape(input.shape[0], num_groups, -1), [-1], eps)
        return scaled(groups.reshape(input.shape), of_channels(weight, input), of_channels(bias, input))

    def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
        if not use_input_stats or running_mean is not None:
            return NotImplemented
        return scaled(normalized(input, list(range(2, input.dim())), eps), of_channels(weight, input), of_channels(bias, input))

    def batch_norm(input, running_mean=None, running_var=None, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
        if not training:
            return NotImplemented
        if running_mean is not None:
            values, dims = input.detach(), all_but_channels(input)
            move(running_mean, values.mean(dims), momentum)
            move(running_var, values.var(dims), momentum)
        return of_batch(input, weight, bias, eps)

    def move(statistic, now, momentum):
        """Where a tensor is traced, what is written to it is another value of the trace."""
        after = statistic + momentum * (now - statistic)
        with tracing.paused():
            statistic.copy_(after)
        if torch.jit.is_tracing():
            tracing.rebind(statistic, after)

    return {functional.layer_norm: layer_norm, functional.group_norm: group_norm, functional.instance_norm: instance_norm,
            functional.batch_norm: batch_norm}


def of_batch(input, weight, bias, eps):
    return scaled(normalized(input, all_but_channels(input), eps), of_channels(weight, input), of_channels(bias, input))


def normalized(x, dims, eps):
    centred = x - x.mean(dims, keepdim=True)
    return centred * (centred.square().mean(dims, keepdim=True) + eps).rsqrt()


def scaled(x, weight, bias):
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def of_channels(value, x):
    return value if value is None else value.reshape(-1, *[1] * (x.dim() - 2))


def all_but_channels(x):
    return [0, *range(2, x.dim())]
