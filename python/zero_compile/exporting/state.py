"""What a model keeps from one step to the next beside what its optimizer trains: buffers, and parameters without a gradient, that a forward pass writes to
(moving averages, codebooks, queues, teachers), and what it makes of parameters that train (a mask of pruned weights). A State names them: `found` by forward passes of copies, outputs of the trace behind the loss, which the graph
assigns, compared with what torch makes of them. State that is in neither, a number or a list of a module's, is no graph's: `repeats` refuses what depends on
it, and `kept` leaves the model as it was."""
import contextlib

from ..errors import MISMATCH, UNSUPPORTED, ZeroError, need
from ..rewriting import draws
from . import graph, steps

MOVE = 1e-2  # of what a step changes of a tensor
PASSES, OTHER = 7, 1e-2  # forward passes that are looked behind, each with weights that are so much larger


class State:
    """What is carried, in the order of the outputs; `projected`: parameters that train and that a forward pass writes to (`is_projection`), which keep what the
    optimizer makes of them, and of which each step takes what is written; `refused`: what else it writes to, and no graph can carry; `counts`: by how much a step
    raises what no graph carries, since the run knows it (`counted`)."""

    def __init__(self, names=(), projected=(), refused=()):
        self.names, self.projected, self.refused, self.counts, self.are_outputs = list(names), list(projected), list(refused), {}, False

    def values(self, model):
        """{name: the tensor in `model`}"""
        own = tensors(model)
        return {name: own[name] for name in self.names}

    def moving(self, model):
        """Names of what a forward pass may write to."""
        return {*dict(model.named_buffers()), *self.names, *self.projected}

    def held(self, model):
        """Copies of `values`."""
        return {name: value.detach().clone() for name, value in self.values(model).items()}

    @contextlib.contextmanager
    def as_outputs(self):
        """While the wrapper gives, behind the loss, what the next step begins with (`outputs`)."""
        self.are_outputs = bool(self.names)
        try:
            yield
        finally:
            self.are_outputs = False

    def save(self, model):
        """Buffers that go from step to step belong to what is saved, which exporters write as initializers, others as constants: until `kept` ends."""
        for name in self.names:
            path, _, own_name = name.rpartition(".")
            model.get_submodule(path)._non_persistent_buffers_set.discard(own_name)

    def outputs(self, model):
        return tuple(value.detach() for value in self.values(model).values()) if self.are_outputs else ()

    def output_names(self):
        return [f"{name}.next" for name in self.names]

    def assign(self, proto, model):
        """The outputs of onnx.ModelProto `proto`, as it was exported, are what the initializers become."""
        graph.assign(proto, {f"{steps.INNER}.{name}": value for name, value in self.values(model).items()})

    def write(self, proto, model):
        """Into the initializers, which the exporter has one forward pass later: this, and running statistics, as they are in the model."""
        values = {name: value for name, value in tensors(model).items() if name in self.moving(model) and (value.is_floating_point() or name in self.names)}
        for tensor in proto.graph.initializer:
            value = values.get(tensor.name)
            if value is not None and list(value.shape) == list(tensor.dims):
                tensor.CopyFrom(graph.initializer(value, tensor.name))

    def compare(self, model, after, got, where):
        """What a step made of it in torch, of `model` the model `after`, is what it made of it in a plan, `got`; so of batch norms' statistics. Errors: mismatch."""
        olds, news = tensors(model), tensors(after)
        for name in [*self.names, *(name for name in statistics(model) if name in got)]:
            old, new = (values[name].detach().double().numpy() for values in (olds, news))
            own = got[name].astype(new.dtype) if name in got else old
            spread = news.get(name.replace("running_mean", "running_var"), news[name]).detach().double().numpy()  # a mean is as exact as what it is of
            rounding = max(steps.LOSS, last_bit(news[name])) * max(steps.norm([new]), steps.norm([abs(spread) ** 0.5]) if name not in self.names else 0)
            if not steps.norm([own - new]) <= MOVE * steps.norm([new - old]) + rounding:
                raise ZeroError(MISMATCH, f"the export keeps {name!r} differently from torch: off by {steps.norm([own - new]):.3g}, where a step changes it by {steps.norm([new - old]):.3g}",
                                where=where, help="what a forward pass changes goes into buffers by tensors alone")

    def tell(self, model, notes):
        """Notes what is carried. Errors: what cannot be (unsupported)."""
        if self.names:
            names = ", ".join(map(repr, self.names[:6])) + (f" and {len(self.names) - 6} more" if len(self.names) > 6 else "")
            notes(f"changed by each step's forward pass, on each rank by itself as batch norms' statistics are: {names}")
        if self.projected:
            notes("written to by each step's forward pass, and trained: " + ", ".join(map(repr, self.projected[:6])) + "; a run keeps what the optimizer makes of them, and brings that home")
        if self.refused:
            of_parameters = sorted(set(self.refused) & set(dict(model.named_parameters())))
            raise ZeroError(UNSUPPORTED, "the forward pass changes what an export keeps as it is: " + ", ".join(map(repr, (of_parameters or self.refused)[:8])),
                            help="parameters that train change by the optimizer alone: norms of rows (max_norm) and clipping are not in a step; what is computed of them is, as weight * mask" if of_parameters else
                            "a buffer keeps its shape and its type from step to step; a module in eval mode, which leaves its state alone, is exported so")


def last_bit(value):
    """Relative, of what it is rounded to; of integers 0."""
    return need("torch", "exporting").finfo(value.dtype).eps if value.is_floating_point() else 0


def tensors(model):
    """Its buffers and parameters by name, but for sparse ones, which no graph has."""
    return {name: value for name, value in (*model.named_buffers(), *model.named_parameters()) if value.layout == need("torch", "exporting").strided}


def put(model, name, value):
    """The buffer or the parameter `name` of `model` is `value`."""
    path, _, own_name = name.rpartition(".")
    module = model.get_submodule(path)
    if own_name in module._buffers:
        module._buffers[own_name] = value.detach().clone()
    else:
        with need("torch", "exporting").no_grad():
            module._parameters[own_name].copy_(value)


def found(wrapper, batch, watching):
    """The State of the wrapper's model, by two forward passes of copies, the first in a context, `watching` of the copy's model, which gives the places where it
    takes gradients itself."""
    twin, model = steps.duplicate(wrapper), steps.inner(wrapper)
    versions = {id(value): (value, value._version) for value in tensors(steps.inner(twin)).values()}  # held, so that no other gets its id
    with watching(steps.inner(twin)) as takes:
        twin(*batch.values())
    after, takes = tensors(steps.inner(twin)), bool(takes)
    written = [name for name, value in carriable(model, takes).items() if name in after and is_written(value, after[name], versions)]
    kinds = {name: (value.shape, value.dtype) for name, value in after.items()}
    del twin, versions, after  # as large as the model
    written += [name for name in written_when_moved(wrapper, batch, takes) if name not in written]
    before = tensors(model)
    with_gradient = steps.reached(wrapper, batch) if any(before[name].requires_grad for name in written) else ()
    names = [name for name in written if not (before[name].requires_grad and name in with_gradient) and kinds[name] == (before[name].shape, before[name].dtype)]
    others = [name for name in written if name not in names]
    try:
        projects = others and all(name in with_gradient and before[name].requires_grad for name in others) and is_projection(wrapper, batch, others)
    except Exception:  # whatever a model says of weights that have moved
        projects = False
    return State(names, others if projects else (), () if projects else others)


def is_projection(wrapper, batch, names):
    """Is what a forward pass makes of the parameters `names` the same, with the loss and the gradients, whether an optimizer has gone on from what they were or
    from what the forward pass before made of them? Then it need not be kept: of a mask that stays, not of a norm, nor of a mask by what the weights are."""
    torch, generator = need("torch", "exporting"), need("torch", "exporting").Generator().manual_seed(1)
    for scale in (1, 10, 100):  # until something is written to all of them: a norm may be kept already
        first = steps.without_any_dropout(moved(wrapper, scale))
        own = State(names).held(steps.inner(first))
        with draws.the_same():
            first(*batch.values())
        projected = State(names).held(steps.inner(first))
        if not any(torch.equal(own[name], projected[name]) for name in names):
            break
    else:
        return False
    return all(is_same_from(first, batch, (own, projected), generator) for _ in range(3))


def is_same_from(module, batch, beginnings, generator):
    """Are loss, gradients and what becomes of them the same from either of `beginnings`, {name: value} of parameters, after a step of noise?"""
    torch, outcomes = need("torch", "exporting"), []
    noise = {name: value.std(unbiased=False) * torch.randn(value.shape, generator=generator) for name, value in beginnings[0].items()}
    for begins in beginnings:
        twin = steps.duplicate(module)
        with torch.no_grad(), draws.the_same():
            for name, value in begins.items():
                tensors(steps.inner(twin))[name].copy_(0.9 * value + noise[name])  # a decay and a step
        with draws.the_same():
            loss, gradients = steps.take(twin, {name: value.roll(1, 0) for name, value in batch.items()})
        outcomes.append((loss, gradients, tensors(steps.inner(twin))))
    (loss, gradients, one), (again, others, other) = outcomes
    return abs(again - loss) <= steps.LOSS * abs(loss) and all(error <= steps.GRADIENT for error in steps.errors(others, gradients).values()) and \
        all(torch.allclose(one[name], other[name], rtol=steps.LOSS, atol=0, equal_nan=True) for name in one)


def is_written(before, after, versions):
    """Was it written to? `versions`: by id, each with torch's count of writes; a vector of spectral_norm's that has converged is written with the values that it
    had, until the weight moves."""
    return id(after) in versions and after._version != versions[id(after)][1] or not same_values(before, after)


def written_when_moved(wrapper, batch, takes_gradients):
    """Names of those that it writes to once the parameters have moved, each by itself: a norm of what has that norm is no change, nor is a teacher's mean
    with a student that it is a copy of, and what is written through `data` counts as no write."""
    torch, twin = need("torch", "exporting"), moved(wrapper)
    model = steps.inner(twin)
    with torch.no_grad():
        before = {name: value.clone() for name, value in carriable(model, takes_gradients).items()}
        with contextlib.suppress(Exception):  # whatever a model says of such weights
            twin(*batch.values())
    now = tensors(model)
    return [name for name, value in before.items() if name in now and now[name].shape == value.shape and not same_values(value, now[name])]


def moved(wrapper, scale=1):
    """A copy whose parameters have moved."""
    torch, generator = need("torch", "exporting"), need("torch", "exporting").Generator().manual_seed(0)
    twin = steps.duplicate(wrapper)
    with torch.no_grad():
        for p in steps.inner(twin).parameters():
            p.mul_(scale * (2 + 2 * torch.rand(p.shape, generator=generator))).add_(0.1 * torch.randn(p.shape, generator=generator))
    return twin


def carriable(model, takes_gradients):
    """Buffers and parameters by name, without the statistics of batch norms that train, which are the exporters' where the loss takes no gradients."""
    of_exporters = () if takes_gradients else statistics(model, counts=True)
    return {name: value for name, value in tensors(model).items() if name not in of_exporters}


def statistics(model, counts=False):
    """Names of the running statistics of batch norms that train; with the counts of their batches, which no graph has."""
    return {f"{path}.{name}" if path else name for path, module in steps.batch_norms(model)
            for name, buffer in module.named_buffers(recurse=False) if counts or buffer.is_floating_point()}


def counted(before, after, carried):
    """{name: how many batches a step counts} of the batch norms whose statistics are the exporters'; of the model `before` it, and `after`."""
    olds, news = tensors(before), tensors(after)
    return {name: int(news[name] - olds[name]) for name in sorted(statistics(before, counts=True) - statistics(before) - set(carried)) if name in news}


def same_values(a, b):
    return a.shape == b.shape and need("torch", "exporting").allclose(a, b, rtol=0, atol=0, equal_nan=True)


def repeats(wrapper, batch, notes):
    """A second step of torch on the same batch has the first one's loss and gradients, and so has one behind passes of other batches, with other weights; or what
    they depend on besides is an error (unsupported): an export keeps as it is what no parameter or buffer holds."""
    twin, taken = steps.plain(wrapper), []
    model = steps.inner(twin)
    before, origin = numbers(model), steps.inner(wrapper)
    for _ in range(2):
        taken.append(step_from(twin, wrapper.state, origin, batch))
    wrapper.state.counts = counted(origin, model, wrapper.state.names)
    after = numbers(model)
    moved = ", ".join(map(repr, [name for name, value in after.items() if name in before and repr(value) != repr(before[name])][:8]))  # NaN is NaN
    del twin, model
    twin = steps.plain(wrapper)
    if has_seen_others(twin, batch):
        taken.append(step_from(twin, wrapper.state, origin, batch))
    for others in taken[1:]:
        if what := difference_of(taken[0], others):
            raise ZeroError(UNSUPPORTED, f"the forward pass depends on those before it, for one batch: {what}" + (f" (what changed: {moved})" if moved else ""),
                            help="an export keeps such state as it is: what changes from step to step goes into buffers, by tensors alone, or into the batch, as an input")
    if moved:
        notes(f"{moved}: changed by each forward pass, and fixed in the export")


def step_from(twin, carried, origin, batch):
    """(loss, gradients, what is carried afterwards) of a step from the tensors of the model `origin`, of which those that train are a little larger, so that a
    teacher is not what it is a copy of."""
    model = steps.inner(twin)
    for name, value in tensors(origin).items():  # one by one: together they are as large as the model
        put(model, name, value.detach() * (1 + 5 * OTHER) if value.requires_grad else value)
    with draws.the_same():
        loss, gradients = steps.take(twin, batch)
    return loss, gradients, carried.held(model)


def has_seen_others(twin, batch):
    """Passes of other data, with other weights each time. False: not all of them can be made."""
    torch = need("torch", "exporting")
    try:
        for k in range(1, PASSES + 1):
            with torch.no_grad():
                for p in steps.inner(twin).parameters():
                    p.mul_(1 + OTHER * k)
            with draws.the_same():
                twin(*steps.towards(batch, k % 2 == 0, 1 - 5 * OTHER * k, k).values())
    except Exception:  # whatever a model says of such weights
        return False
    return True


def difference_of(one, other):
    """What is not the same in two steps of one beginning; empty: nothing."""
    (loss, gradients, carried), (again, others, kept) = one, other
    if abs(again - loss) > steps.LOSS * max(abs(loss), 1e-6):
        return f"loss {loss:.9g}, then {again:.9g}"
    different = [name for name, error in steps.errors(others, gradients).items() if error > steps.GRADIENT]
    if different:
        return f"loss {loss:.9g}, then {again:.9g}" if again != loss else f"another gradient of {different[0]!r}"
    different = [name for name, value in carried.items() if not need("torch", "exporting").allclose(value.double(), kept[name].double(), rtol=steps.GRADIENT, atol=1e-6, equal_nan=True)]
    return f"another {different[0]!r} for the next step" if different else ""


def numbers(model):
    """Those in modules' attributes, by name."""
    return {f"{path}.{name}" if path else name: value for path, module in model.named_modules()
            for name, value in own(module).items() if isinstance(value, (int, float))}


@contextlib.contextmanager
def kept(model, names=()):
    """The modules' modes and attributes, with what they held, their hooks, and the values of the buffers and parameters `names` are as before afterwards,
    whatever a forward pass makes of them. Hooks that one registers and notes in an attribute would be registered by each pass anew if only that were gone."""
    modes = [(module, module.training, [(collection, collection.copy()) for collection in collections_of(module)]) for module in model.modules()]
    before = [(module, own(module)) for module in model.modules()]
    held = [(value, contents(value)) for value in [*(value for _, attributes in before for value in attributes.values()),
                                                   *(value for name, value in tensors(model).items() if name in names)]]
    try:
        yield
    finally:
        for module, attributes in before:
            for name in own(module).keys() - attributes.keys():
                del vars(module)[name]
            vars(module).update(attributes)
        for module, mode, collections in modes:
            module.training = mode
            for collection, content in collections:
                restore(collection, content)
        for value, content in held:
            restore(value, content)


def collections_of(module):
    """What every module has of parameters, buffers, modules and hooks."""
    attributes = own(module)
    return [value for name, value in vars(module).items() if name not in attributes and isinstance(value, (dict, set))]


def own(module):
    """Its attributes by name, but for those that every module has."""
    common = vars(need("torch", "exporting").nn.Module())
    return {name: value for name, value in vars(module).items() if name not in common}


def contents(value):
    """A copy of what may change within it; None of what cannot."""
    torch = need("torch", "exporting")
    if isinstance(value, torch.Tensor):
        return value.detach().clone() if value.layout == torch.strided and value.device.type == "cpu" else None
    return value.copy() if type(value) in (list, dict, set) else None


def restore(value, content):
    torch = need("torch", "exporting")
    if content is None:
        return
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            if value.shape == content.shape and not torch.equal(value, content):
                value.copy_(content)
    elif isinstance(value, list):
        value[:] = content
    else:
        value.clear()
        value.update(content)
