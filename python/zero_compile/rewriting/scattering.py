"""Elements by places along a dimension: reductions into places, and the ways to take from them, of what exporters have."""
import contextlib
import math

from . import complexes, tracing

UNROLLED = 1024  # the most experts of a loop over those that some row chose


@contextlib.contextmanager
def kept(torch, opset):
    """index_add of rows that a mask picked, in TorchScript's export, whose own form loses what comes to one place twice."""
    def index_add(g, input, dim, index, source, alpha=None):
        axes = g.op("Constant", value_t=torch.arange(1, input.type().dim() or source.type().dim()))
        places = g.op("Expand", g.op("Unsqueeze", index, axes), g.op("Shape", source))
        return g.op("ScatterElements", input, places, source, axis_i=0, reduction_s="add").setType(input.type())

    torch.onnx.register_custom_op_symbolic("aten::index_add", index_add, opset)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::index_add", opset)


class Picked:
    """Tensors of as many rows as a mask says, and what is made of them."""

    def __init__(self, torch):
        from torch.utils.weak import WeakTensorKeyDictionary
        self.torch, self.those, self.lengths = torch, WeakTensorKeyDictionary(), WeakTensorKeyDictionary()

    def has(self, value):
        return isinstance(value, self.torch.Tensor) and value in self.those

    def origin(self, value):
        """(input, mask) of what a mask as large as its input picked; else None."""
        return self.those[value] if self.has(value) else None

    def length(self, value):
        """Of the places at which a vector is not 0, that vector's length; else None."""
        return self.lengths.get(value) if isinstance(value, self.torch.Tensor) and len(self.lengths) else None

    def of_vector(self, name, args, kwargs):
        """That length, of what such a call gives."""
        input = args[0] if args else kwargs.get("input")
        if name in ("nonzero", "argwhere") or name == "where" and len(args) == 1:
            return input.shape[0] if input.dim() == 1 else None
        return self.length(input) if name in ("squeeze", "flatten", "ravel") else None

    def of_mask(self, function, args, kwargs):
        """The origin of what such a call gives."""
        named = dict(zip(("input", "mask"), args)) | kwargs
        input, mask = named.get("input"), named.get("mask")
        masks = getattr(function, "__name__", "") in ("__getitem__", "masked_select") and isinstance(mask, self.torch.Tensor) and mask.dtype == self.torch.bool
        return (input, mask) if masks and mask.shape == input.shape else None

    def note(self, function, args, kwargs, result):
        name = getattr(function, "__name__", "")
        if name == "__getitem__":
            picks = any(isinstance(index, self.torch.Tensor) and index.dtype == self.torch.bool for index in complexes.flat(args[1:]))
        else:
            picks = name in ("masked_select", "nonzero", "argwhere") or name == "where" and len(args) == 1
        if picks or len(self.those) and any(map(self.has, complexes.flat([args, *kwargs.values()]))):
            for each in complexes.flat([result]):
                if isinstance(each, self.torch.Tensor) and each.dim():
                    self.those[each] = self.of_mask(function, args, kwargs)
                    length = self.of_vector(name, args, kwargs)
                    if length is not None:
                        self.lengths[each] = length


def stand_ins(torch, picked):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments. `picked`: what a mask picked so far."""
    from torch.utils.weak import WeakTensorKeyDictionary
    looped = WeakTensorKeyDictionary()  # places of a loop that is over all of them
    tensor, identity = torch.Tensor, {"amax": float("-inf"), "amin": float("inf"), "prod": 1.0}

    def take_along_dim(input, indices, dim=None):
        if dim is None:
            return input.flatten().gather(0, indices.flatten())
        wide = lambda x, other: x + torch.zeros_like(other.narrow(dim, 0, 1), dtype=x.dtype)
        return wide(input, indices).gather(dim, wide(indices, input))

    def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
        """What the exporters refuse, or write as if the places' own values counted."""
        if reduce not in ("sum", "mean") and include_self or src.shape != index.shape:
            return NotImplemented
        count = torch.zeros_like(input).scatter_add(dim, index, torch.ones_like(src))
        if reduce in identity:
            empty = torch.where(count > 0, torch.full_like(input, identity[reduce]), input)
            return empty.scatter_reduce(dim, index, src, reduce, include_self=True)
        own = input if include_self else torch.where(count > 0, torch.zeros_like(input), input)
        total = own.scatter_add(dim, index, src)
        return total if reduce == "sum" else total / (count + 1 if include_self else count.clamp(min=1))

    def scatter(input, dim, index, src=None, *, value=None, reduce=None):
        """A number that is computed of a size (0.1 / x.size(-1)) is a tensor while TorchScript traces, which is no source of elements; of a truth it has no form."""
        number = src if value is None else value
        if reduce is not None or not (isinstance(number, bool) or isinstance(number, tensor) and number.dim() == 0 and index.dim() > 0):
            return NotImplemented
        source = number.to(input.dtype).expand_as(index) if isinstance(number, tensor) else torch.full_like(index, int(number)).to(input.dtype)
        return input.scatter(dim, index, source)

    def index_add(input, dim, index, source, *, alpha=1):
        """Rows that a mask picked are added as `kept` writes them."""
        dim = dim % input.dim()
        if dim == 0 and (picked.has(index) or picked.has(source)):
            return NotImplemented if alpha == 1 else input.index_add(dim, index, source * alpha)
        places = index.reshape(*[1] * dim, -1, *[1] * (input.dim() - dim - 1)).expand_as(source)
        return input.scatter_add(dim, places, source if alpha == 1 else source * alpha)

    def get_item(input, index):
        """x[range(len(x)), places]: each row's, however many there are. Of an expert that is none, as where a table of choices has one place more, whatever
        is there: no row chose it."""
        if input in looped:
            place = input[index]
            looped[place] = True
            return place
        if isinstance(index, tensor) and index in looped and index.dim() == 0 and value_of(index) >= int(input.shape[0]):
            return input[int(input.shape[0]) - 1]
        if torch.jit.is_tracing() and are_places(index):
            return input[tuple(from_the_start(each, input.shape[dim]) if isinstance(each, tensor) else each for dim, each in enumerate(index))]
        rows = index[0] if isinstance(index, tuple) and len(index) > 1 else None
        if not isinstance(rows, range) and type(rows).__name__ != "ndarray":
            return NotImplemented
        with tracing.paused():
            are_all = list(rows) == list(range(int(input.shape[0])))
        return input[(torch.arange(input.shape[0]), *index[1:])] if are_all else NotImplemented

    def index_put(input, indices, values, accumulate=False):
        """TorchScript's exporter loses what comes to one place twice."""
        if not accumulate or not torch.jit.is_tracing() or not all(is_place(each) for each in indices):
            return NotImplemented
        indices, place = torch.broadcast_tensors(*indices), 0
        for dim, each in enumerate(indices):
            place = place * input.shape[dim] + from_the_start(each, input.shape[dim])
        rest = tuple(input.shape[len(indices):])
        source = values.expand(*indices[0].shape, *rest).reshape(-1, *rest).to(input.dtype)
        places = place.reshape(-1, *[1] * len(rest)).expand(source.shape)
        return input.reshape(-1, *rest).scatter_add(0, places, source).reshape(input.shape)

    def is_place(index):
        return isinstance(index, tensor) and index.dtype in (torch.int64, torch.int32)

    def are_places(index):
        """Several tensors of places, beside nothing but slices."""
        if not isinstance(index, tuple) or not all(isinstance(each, (slice, tensor)) for each in index):
            return False
        places = [each for each in index if isinstance(each, tensor)]
        return len(places) > 1 and all(is_place(each) and not picked.has(each) for each in places)

    def from_the_start(place, size):
        """Negative places count from the end; TorchScript's exporter takes those of several tensors for places of the row before."""
        is_fixed = torch._C._get_value_trace(place).node().kind() in ("prim::Constant", "aten::arange")
        with tracing.paused():
            counts_up = is_fixed and not bool((place < 0).any())
        return place if counts_up else torch.where(place < 0, place + size, place)

    def set_item(input, index, value):
        """A number where a mask of rows says: exporters take the mask for one of all elements; a slice that begins where a tensor says (a queue's)."""
        places = in_places(input, index, value)
        if places is not None:
            input[places] = value
            return None
        if are_apart(index):
            index = (*index, *[slice(None)] * (input.dim() - len(index)))
            order = sorted(range(input.dim()), key=lambda dim: not isinstance(index[dim], tensor))
            turned = input.permute(order).clone()
            turned[tuple(index[dim] for dim in order)] = value
            input.copy_(turned.permute([order.index(dim) for dim in range(input.dim())]))
            return None
        if not isinstance(index, tensor) or index.dtype != torch.bool or index.dim() == input.dim() or isinstance(value, tensor) and value.dim():
            return NotImplemented
        return input.masked_fill_(index.reshape(*index.shape, *[1] * (input.dim() - index.dim())), value)

    def are_apart(index):
        """Tensors of places with slices between them, which exporters take one beside the other alone."""
        if not isinstance(index, tuple) or not all(isinstance(each, (slice, tensor)) for each in index):
            return False
        places = [dim for dim, each in enumerate(index) if isinstance(each, tensor)]
        return len(places) > 1 and places[-1] - places[0] >= len(places) and all(index[dim].dtype == torch.int64 and index[dim].dim() == 1 for dim in places)

    def in_places(input, index, value):
        """Slices of which one has tensors for its ends, with the places in its stead: as many as there are of `value`. None: that is not what `index` is."""
        slices = index if isinstance(index, tuple) else (index,)
        moving = [dim for dim, each in enumerate(slices) if isinstance(each, slice) and any(isinstance(end, tensor) for end in (each.start, each.stop))]
        if len(moving) != 1 or not all(isinstance(each, slice) for each in slices) or slices[moving[0]].step is not None or not isinstance(value, tensor):
            return None
        dim, place = moving[0], moving[0] - input.dim()
        start, stop = slices[dim].start, slices[dim].stop
        with tracing.paused():
            length = len(range(int(input.shape[dim]))[slice(*(end if end is None else int(end) for end in (start, stop)))])
        if value.dim() < -place or int(value.shape[place]) != length:
            return None
        return (*slices[:dim], (0 if start is None else start) + torch.arange(value.shape[place]), *slices[dim + 1:])

    def each_place(input, dim=0):
        """Of a loop over the experts that some row chose, all experts: of no rows the others add nothing."""
        length = picked.length(input)
        if length is None or dim != 0 or int(length) > UNROLLED:
            return NotImplemented
        places = tuple(torch.tensor(place).reshape([1] * (input.dim() - 1)) for place in range(int(length)))
        looped.update(dict.fromkeys(places, True))
        return places

    def value_of(place):
        with tracing.paused():
            return int(place)

    def listed(input):
        places = each_place(input)
        return places if places is NotImplemented else [place.tolist() for place in places]

    def masked_select(input, mask):
        """Which torch.export's exporter has not."""
        if torch.jit.is_tracing():
            return NotImplemented
        input, mask = torch.broadcast_tensors(input, mask)
        return input[mask]

    def masked_scatter(input, mask, source):
        """The elements of `source` one after the other, whatever number of them; whole rows where the mask says so of each. Those that a mask picked are the
        exporters', and stay in their places."""
        if picked.has(source):
            return NotImplemented
        whole = input.dim() > 1 and (mask.shape[-1] == 1 or mask.stride(-1) == 0)
        mask, width = mask.expand_as(input), int(input.shape[-1]) if whole else 1
        which = mask[..., 0] if whole else mask
        place = (which.reshape(-1).to(torch.int64).cumsum(0) - 1).clamp(min=0)
        taken = source.reshape(-1, width)[place] if whole else source.reshape(-1)[place]
        return torch.where(mask, taken.reshape(input.shape).to(input.dtype), input)

    def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
                      include_last_offset=False, padding_idx=None):
        """Bags of one size: looked up, and reduced."""
        if input.dim() != 2 or offsets is not None or max_norm is not None or scale_grad_by_freq:
            return NotImplemented
        rows = torch.nn.functional.embedding(input, weight)
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        if padding_idx is not None:
            counts = (input != padding_idx % int(weight.shape[0])).unsqueeze(-1)
            rows = torch.where(counts, rows, torch.full_like(rows, -float("inf") if mode == "max" else 0.0))
            number = counts.sum(1).clamp(min=1)
            return torch.where(counts.any(1), rows.max(1).values, 0.0) if mode == "max" else rows.sum(1) / number if mode == "mean" else rows.sum(1)
        return rows.sum(1) if mode == "sum" else rows.mean(1) if mode == "mean" else rows.max(1).values

    def repeat_interleave(input, repeats, dim=None, **options):
        """TorchScript's exporter adds the rank to a negative dimension in place, and so to every -1 of the graph."""
        return NotImplemented if dim is None or dim >= 0 else input.repeat_interleave(repeats, dim + input.dim(), **options)

    def as_strided(input, size, stride, storage_offset=None):
        """Windows that may overlap, as those of sliding attention: the first dimension as it is, where it is one of the input's, of the others by their places.
        Strides are those of the tensor that is traced, whose number of rows they may depend on."""
        sizes, strides, lengths, own = ([int(each) for each in numbers] for numbers in (size, stride, input.shape, input.stride()))
        if not torch.jit.is_tracing() or storage_offset not in (None, input.storage_offset()) or not sizes:
            return NotImplemented
        rows = next((dim for dim in range(input.dim()) if (lengths[dim], own[dim]) == (sizes[0], strides[0]) and lengths[dim] > 1), None)
        others = [dim for dim in range(input.dim()) if dim != rows and lengths[dim] > 1]
        with tracing.paused():
            left, place = torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)
            for length, step in list(zip(sizes, strides))[rows is not None:]:
                left = left.unsqueeze(-1) + torch.arange(length) * step
            volumes = {dim: math.prod(lengths[later] for later in others if later > dim) for dim in others}
            for dim in sorted(others, key=lambda dim: -own[dim]):
                at = left // own[dim]
                if bool((at >= lengths[dim]).any()):
                    return NotImplemented
                left, place = left - at * own[dim], place + at * volumes[dim]
            if bool(left.any()):
                return NotImplemented
            place = place.flatten()
        if rows is None:
            return input.reshape(-1).index_select(0, place).reshape(sizes)
        return input.movedim(rows, 0).flatten(1).index_select(1, place).reshape(-1, *sizes[1:])

    def of_sparse(input, mat2):
        """A sparse matrix that stays (a graph's neighbours) times rows: those of its columns, added up in its rows."""
        if not isinstance(input, tensor) or input.layout == torch.strided or mat2.dim() != 2 or not torch.jit.is_tracing():
            return NotImplemented
        with tracing.paused():
            entries = input.detach().to_sparse_coo().coalesce()
            (rows, columns), values = entries.indices(), entries.values()
        picked = mat2.index_select(0, columns) * values.unsqueeze(1)
        return mat2.new_zeros(int(input.shape[0]), mat2.shape[1]).scatter_add(0, rows.unsqueeze(1).expand_as(picked), picked)

    def unfold(input, dimension, size, step):
        """TorchScript's exporter wants to know all sizes, and puts the windows elsewhere where the dimension is counted from the end."""
        dim = dimension % input.dim()
        if dim == 0 or not torch.jit.is_tracing():
            return NotImplemented if dimension >= 0 else input.unfold(dim, size, step)
        count = (int(input.shape[dim]) - size) // step + 1
        if step == size:
            windows = input.narrow(dim, 0, count * size)
        else:
            windows = input.index_select(dim, (torch.arange(count)[:, None] * step + torch.arange(size)).flatten())
        return windows.reshape(*input.shape[:dim], count, size, *input.shape[dim + 1:]).movedim(dim + 1, -1)

    products = torch.sparse.mm, torch.mm, tensor.mm, torch.matmul, tensor.matmul, tensor.__matmul__, torch.spmm
    return {**dict.fromkeys(products, of_sparse), tensor.unfold: unfold, torch.as_strided: as_strided, tensor.as_strided: as_strided, torch.nn.functional.embedding_bag: embedding_bag, torch.repeat_interleave: repeat_interleave, tensor.repeat_interleave: repeat_interleave,
            tensor.__getitem__: get_item, tensor.__setitem__: set_item, torch.unbind: each_place, tensor.unbind: each_place, tensor.tolist: listed,
            torch.masked_select: masked_select, tensor.masked_select: masked_select, torch.masked_scatter: masked_scatter,
            tensor.masked_scatter: masked_scatter, torch.take_along_dim: take_along_dim, tensor.take_along_dim: take_along_dim,
            torch.scatter: scatter, tensor.scatter: scatter, torch.scatter_reduce: scatter_reduce, tensor.scatter_reduce: scatter_reduce, torch.index_add: index_add, tensor.index_add: index_add,
            torch.index_put: index_put, tensor.index_put: index_put}
