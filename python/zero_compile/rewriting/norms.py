"""Norms as their steps: rms norms, batch norms without running statistics and instance norms with them, which exporters refuse, and all where a loss takes gradients,
whose derivative no operator's has."""
from ..errors import need
from . import tracing


def stand_ins(torch, model):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    functional, trains = torch.nn.functional, {module: module.training for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)}

    def batch_norm(input, running_mean=None, running_var=None, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
        if running_mean is None:
            return of_batch(input, weight, bias, eps) if training else NotImplemented
        again = training and tracing.Again.depth > 0
        momentum = 1 - (1 - momentum) ** 2 if again else momentum  # a checkpoint's norm follows one batch twice
        if torch.jit.is_tracing() or any(module.running_mean is running_mean and mode == training for module, mode in trains.items()):
            return functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps) if again else NotImplemented
        if not training:  # torch.export's trace does not say of a norm whether it trains: that of a module is as the module is
            return by_statistics(input, running_mean, running_var, weight, bias, eps)
        return moving(input, running_mean, running_var, weight, bias, momentum, eps)

    def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
        """Running statistics follow the means of those of the rows."""
        if running_mean is None:
            return NotImplemented
        if not use_input_stats:
            return by_statistics(input, running_mean, running_var, weight, bias, eps)
        values, dims = input.detach(), list(range(2, input.dim()))
        move(running_mean, values.mean(dims).mean(0), momentum)
        move(running_var, values.var(dims).mean(0), momentum)
        return functional.instance_norm(input, None, None, weight, bias, True, momentum, eps)

    def rms_norm(input, normalized_shape, weight=None, eps=None):
        dims = list(range(-len(normalized_shape), 0))
        return scaled(input * (input.pow(2).mean(dims, keepdim=True) + (torch.finfo(input.dtype).eps if eps is None else eps)).rsqrt(), weight, None)

    def layer_norm(input, normalized_shape, *args, **kwargs):
        """Of sizes that the trace has: (x.size(-1),)."""
        if not any(isinstance(size, torch.Tensor) for size in normalized_shape):
            return NotImplemented
        return functional.layer_norm(input, [int(size) for size in normalized_shape], *args, **kwargs)

    def of_16_bits(norm, stand_in=None):
        """By weights or statistics of 32, as where autocast is on: computed as these are, and given as the input is."""
        def of(input, *args, **kwargs):
            wider = {x.dtype for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor) and x.dtype != input.dtype}
            if wider != {torch.float32} or input.dtype not in (torch.float16, torch.bfloat16):
                return stand_in(input, *args, **kwargs) if stand_in else NotImplemented
            input, kind = input.float(), input.dtype
            result = stand_in(input, *args, **kwargs) if stand_in else NotImplemented
            return (norm(input, *args, **kwargs) if result is NotImplemented else result).to(kind)
        return of

    own = {functional.layer_norm: layer_norm, functional.batch_norm: batch_norm, functional.instance_norm: instance_norm, functional.rms_norm: rms_norm, torch.rms_norm: rms_norm}
    return {norm: of_16_bits(norm, own.get(norm)) for norm in (*own, functional.group_norm)}


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
        return of_batch(input, weight, bias, eps) if running_mean is None else moving(input, running_mean, running_var, weight, bias, momentum, eps)

    return {functional.layer_norm: layer_norm, functional.group_norm: group_norm, functional.instance_norm: instance_norm,
            functional.batch_norm: batch_norm}


def moving(input, running_mean, running_var, weight, bias, momentum, eps):
    values, dims = input.detach(), all_but_channels(input)
    move(running_mean, values.mean(dims), momentum)
    move(running_var, values.var(dims), momentum)
    return of_batch(input, weight, bias, eps)


def move(statistic, now, momentum):
    """Where a tensor is traced, what is written to it is another value of the trace."""
    after = statistic + momentum * (now - statistic)
    with tracing.paused():
        statistic.copy_(after)
    if need("torch", "exporting").jit.is_tracing():
        tracing.rebind(statistic, after)


def by_statistics(input, mean, variance, weight, bias, eps):
    return scaled((input - of_channels(mean, input)) * of_channels((variance + eps).rsqrt(), input), of_channels(weight, input), of_channels(bias, input))


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
