"""Rows of tables that get no gradient (an embedding's padding_idx), of which ONNX's operators know nothing. Where all that looks rows up in a parameter leaves out
the same one, the export says so of the parameter; elsewhere a look-up is traced with that row detached."""
import contextlib


@contextlib.contextmanager
def watched(torch, model):
    """Gives {parameter's name: the rows without a gradient of what looks rows up in it, None of what has none}, which is filled where `model` computes here."""
    from torch.overrides import TorchFunctionMode
    looked, names = {}, {id(p): name for name, p in model.named_parameters()}
    others = {torch.embedding, torch.index_select, torch.Tensor.index_select, torch.Tensor.__getitem__, torch.nn.functional.embedding_bag}

    def table(input, weight, padding_idx=None, *args, **kwargs):
        return weight, row_of(weight, padding_idx)

    class Watching(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if function is torch.nn.functional.embedding:
                found = [table(*args, **kwargs)]
            else:
                found = [(value, None) for value in (*args[:2], *kwargs.values())] if function in others else []
            for weight, row in found:
                if id(weight) in names:
                    looked.setdefault(names[id(weight)], set()).add(row)
            return function(*args, **kwargs)

    with Watching():
        yield looked


def row_of(weight, padding_idx):
    return None if padding_idx is None else padding_idx % int(weight.shape[0])


def without_gradient(looked):
    """{parameter: its row without a gradient}, of what `watched` gave: where it is one for all."""
    return {name: row for name, rows in looked.items() if len(rows) == 1 for row in rows if row is not None}


def stand_ins(torch, model, rows):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments. `rows`: without_gradient, of `model`, which the export says."""
    functional = torch.nn.functional

    def said(weight):
        return next((rows[name] for name, p in model.named_parameters() if p is weight and name in rows), None)

    def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
        """Each row's gradient by how often it is looked up, none where the export does not say it by itself."""
        row = row_of(weight, padding_idx)
        is_written = row is not None and said(weight) != row
        if not is_written and not scale_grad_by_freq:
            return NotImplemented
        found, places = functional.embedding(input, weight, None if is_written else padding_idx), input.flatten()
        if scale_grad_by_freq:
            often = torch.zeros(weight.shape[0]).scatter_add(0, places, torch.ones_like(places, dtype=torch.float32))[input].unsqueeze(-1)
            found = found.detach() + (found - found.detach()) / often
        return torch.where((input == row).unsqueeze(-1), found.detach(), found) if is_written else found

    return {functional.embedding: embedding}
