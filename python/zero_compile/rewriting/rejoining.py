"""What is taken apart and put together again is whole: the rows of a batch one by one, of which a trace would count those it saw."""


class Parts:
    """Tensors that one was taken apart into, each with that one, the dimension, its place and how many there are."""

    def __init__(self, torch):
        from torch.utils.weak import WeakTensorKeyDictionary
        self.torch, self.origins = torch, WeakTensorKeyDictionary()

    def note(self, function, args, kwargs, result):
        name, tensor = getattr(function, "__name__", ""), self.torch.Tensor
        if name not in ("unbind", "split", "chunk", "tensor_split") or not isinstance(result, (tuple, list)):
            return
        input = args[0] if args else kwargs.get("input", kwargs.get("tensor"))
        dim = kwargs.get("dim", args[1 if name == "unbind" else 2] if len(args) > (1 if name == "unbind" else 2) else 0)
        if isinstance(input, tensor) and isinstance(dim, int) and all(isinstance(part, tensor) for part in result):
            for place, part in enumerate(result):
                self.origins[part] = input, dim % input.dim(), name == "unbind", place, len(result)

    def whole(self, parts):
        """(tensor, dimension, is each of one element) that these are all parts of, in their order; else None."""
        if not isinstance(parts, (tuple, list)) or not all(isinstance(part, self.torch.Tensor) and part in self.origins for part in parts):
            return None
        origins = [self.origins[part] for part in parts]
        in_order = [origin[3] for origin in origins] == list(range(len(parts)))
        same = all(origin[0] is origins[0][0] and origin[1:3] == origins[0][1:3] for origin in origins)
        return origins[0][:3] if origins and in_order and same and origins[0][4] == len(parts) else None


def stand_ins(torch, parts):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    def cat(tensors, dim=0):
        whole = parts.whole(tensors)
        if whole is None:
            return NotImplemented
        input, apart, single = whole
        dim = dim % (input.dim() - single) if input.dim() > single else 0
        if not single:
            return input if dim == apart else NotImplemented
        return input.movedim(apart, dim).flatten(dim, dim + 1) if input.dim() > 1 else NotImplemented

    def stack(tensors, dim=0):
        whole = parts.whole(tensors)
        return whole[0].movedim(whole[1], dim) if whole and whole[2] else NotImplemented

    return {torch.cat: cat, torch.concat: cat, torch.concatenate: cat, torch.stack: stack}
