"""A step of torch: copies of a model and its loss in one module (exporting.wrap), the loss and the gradients that they compute, and how far those of two are
apart."""
from ..errors import need
from ..rewriting import draws, rewrite
from .copies import duplicate

INNER = "model"  # the wrapper's attribute that holds the model
LOSS, GRADIENT = 1e-5, 1e-3  # relative: what of two steps is the same
NOISE = 1e-2  # of the whole gradient's norm: a parameter's that is smaller, as a bias's before a norm, is measured by this share of it


def inner(wrapper):
    """The model; of a copy of the wrapper, the copy's."""
    return getattr(wrapper, INNER)


def batch_norms(model, training=True):
    """(path, module) of those that train, or of those in eval mode."""
    torch = need("torch", "exporting")
    return [(path, module) for path, module in model.named_modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.training == training]


def without_dropout(holder):
    """Every number of a module or configuration that is a probability of leaving something out."""
    for name, value in list(vars(holder).items()):
        if isinstance(value, float) and any(word in name for word in ("dropout", "drop_path", "drop_prob", "pdrop", "drop_rate")):
            setattr(holder, name, 0.0)


def without_any_dropout(module):
    for part in module.modules():
        if "Dropout" in type(part).__name__ and hasattr(part, "p"):
            part.p = 0.0
        without_dropout(part)
    return module


def plain(wrapper):
    """A copy in which nothing is left out."""
    return without_any_dropout(duplicate(wrapper))


def loss_and_gradients(wrapper, batch):
    """(loss, {parameter: its gradient}) without dropout, zeros where the loss does not reach; the module is as before afterwards."""
    return take(plain(wrapper), batch)


def take(twin, batch):
    """loss_and_gradients, of a module that is left as the step leaves it. What it draws is the same each time: no other draw counts as rounding."""
    torch = need("torch", "exporting")
    twin.zero_grad()
    with draws.the_same(), rewrite.without_dropout(torch):
        loss = twin(*batch.values())
        if loss.requires_grad:
            # loss.backward(), of which a mode is told and around which it is off: a checkpoint runs forward again there.
            torch.autograd.Variable._execution_engine.run_backward((loss,), (torch.ones_like(loss),), False, False, (), allow_unreachable=True,
                                                                   accumulate_grad=True)
    gradients = {name: (torch.zeros_like(p) if p.grad is None else p.grad.to_dense().clone()).double().numpy() for name, p in inner(twin).named_parameters()
                 if p.requires_grad and name not in twin.state.names}
    return float(loss.detach()), gradients


def reached(wrapper, batch):
    """Names of the parameters that a backward pass reaches."""
    twin = duplicate(wrapper)
    twin(*batch.values()).backward()
    return {name for name, p in inner(twin).named_parameters() if p.grad is not None}


def towards(batch, low, share=0.5, rows=1):
    """Other data of the same kind: floats squeezed to that share of their range, towards its lower end or its upper, and of integers that are more
    than a flag the largest lowered to the next, or the smallest raised; then the rows moved on. What held of the batch, as boxes that
    have an area and lengths that fit, holds of it."""
    torch = need("torch", "exporting")

    def moved(value):
        distinct = value.unique()
        if value.dtype == torch.bool or len(distinct) < 3:
            return value
        if value.is_floating_point() and not torch.equal(value, value.round()):
            end = distinct[0] if low else distinct[-1]
            return end + (value - end) * share
        return torch.where(value == distinct[-1], distinct[-2], value) if low else torch.where(value == distinct[0], distinct[1], value)

    return {name: moved(value).roll(rows, 0) for name, value in batch.items()}


def norm(arrays):
    return sum(float((a * a).sum()) for a in arrays) ** 0.5


def floor(gradients):
    """What a gradient that is smaller is measured by."""
    return max(NOISE * norm(gradients.values()), 1e-30)


def errors(others, gradients):
    """{parameter: how far its gradient in `others` is from that in `gradients`, relative}"""
    least = floor(gradients)
    return {name: norm([other - gradients[name]]) / max(norm([gradients[name]]), least) for name, other in others.items()}
