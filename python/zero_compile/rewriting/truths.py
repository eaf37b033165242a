"""Python's truths among arguments (torch.full(size, True), x.masked_fill(mask, True), mask == False): TorchScript's trace has no operators of them, and ends
with an assertion. Tensors of them stand in their place."""
METHODS = "__eq__", "__ne__", "fill_", "masked_fill_", "index_fill_", "__and__", "__or__", "__xor__", "__rand__", "__ror__", "__rxor__"
FUNCTIONS = "eq", "ne", "where", "masked_fill", "index_fill", "bitwise_and", "bitwise_or", "bitwise_xor"  # methods too
NAMED = "value", "other", "self", "input", "fill_value"  # as keywords; other keywords are options


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    tensor = torch.Tensor

    def taken(function):
        def call(*args, **kwargs):
            number = lambda value: torch.tensor(value) if type(value) is bool else value
            given = [*args, *(kwargs[name] for name in NAMED if name in kwargs)]
            if not torch.jit.is_tracing() or not any(type(value) is bool for value in given):
                return NotImplemented
            return function(*map(number, args), **{name: number(value) if name in NAMED else value for name, value in kwargs.items()})
        return call

    def filled(ones, zeros):
        def call(of, *size_and_value, **kwargs):
            """full_like(x, value), or x.new_full(size, value)."""
            *before, last = *size_and_value, *([kwargs.pop("fill_value")] if "fill_value" in kwargs else [])
            return (ones if last else zeros)(of, *before, **kwargs) if torch.jit.is_tracing() and type(last) is bool else NotImplemented
        return call

    def full(size, fill_value, **kwargs):
        made = torch.ones if fill_value is True else torch.zeros
        return made(size, **{"dtype": torch.bool, **kwargs}) if torch.jit.is_tracing() and type(fill_value) is bool else NotImplemented

    functions = [getattr(tensor, name) for name in (*METHODS, *FUNCTIONS)] + [getattr(torch, name) for name in FUNCTIONS]
    return {**{function: taken(function) for function in functions}, torch.full: full,
            torch.full_like: filled(torch.ones_like, torch.zeros_like), tensor.new_full: filled(tensor.new_ones, tensor.new_zeros)}
