"""Convolutions with filters of their own for each row, written as one of as many groups as there are rows (StyleGAN2's modulated ones, dynamic ones):
in a graph the number of groups is a constant, and rows are not. What stands for them multiplies each row's patches by its filters."""
import itertools


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    functional = torch.nn.functional

    def many(value, dims):
        return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims

    def sizes(x, dims):
        return [int(size) for size in x.shape[-dims:]]

    def by_row(rows, filters, bias, groups, stride, dilation):
        """rows [groups, i, ...], padded; filters [groups, o, i, ...] -> [1, groups * o, ...]"""
        dims = len(stride)
        kernel = sizes(filters, dims)
        out = [(size - step * (taps - 1) - 1) // every + 1 for size, taps, every, step in zip(sizes(rows, dims), kernel, stride, dilation)]
        patches = [rows[(..., *(slice(at * step, at * step + (count - 1) * every + 1, every) for at, step, count, every in zip(tap, dilation, out, stride)))]
                   for tap in itertools.product(*map(range, kernel))]
        count, inner = len(patches), int(filters.shape[2])
        columns = torch.stack([patch.flatten(2) for patch in patches], 2).reshape(groups, inner * count, -1)
        result = torch.matmul(filters.reshape(groups, -1, inner * count), columns)
        result = result if bias is None else result + bias.reshape(groups, -1, 1)
        return result.reshape(1, -1, *out)

    def counts_rows(input, groups, padding, dims):
        """Is the number of groups one that is open, as Python's own are not?"""
        return not isinstance(groups, int) and not isinstance(padding, str) and input.dim() == dims + 2 and int(input.shape[0]) == 1

    def convolution(dims):
        def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
            if not counts_rows(input, groups, padding, dims):
                return NotImplemented
            inner, border = int(weight.shape[1]), [side for size in reversed(many(padding, dims)) for side in (size, size)]
            rows = functional.pad(input.reshape(groups, inner, *sizes(input, dims)), border)
            return by_row(rows, weight.reshape(groups, -1, inner, *sizes(weight, dims)), bias, groups, many(stride, dims), many(dilation, dims))
        return conv

    def transposed(dims):
        def conv(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
            """Of what lies `stride` apart between zeros, with filters turned around."""
            if not counts_rows(input, groups, padding, dims):
                return NotImplemented
            every, step, size, kernel = many(stride, dims), many(dilation, dims), sizes(input, dims), sizes(weight, dims)
            apart = input.reshape(groups, -1, *(n for each in size for n in (each, 1)))
            apart = functional.pad(apart, [n for each in reversed(every) for n in (0, each - 1, 0, 0)])
            apart = apart.reshape(groups, -1, *(n * each for n, each in zip(size, every)))
            ends = [(reach - less, reach - less + more - (each - 1)) for reach, less, more, each in
                    zip((d * (k - 1) for d, k in zip(step, kernel)), many(padding, dims), many(output_padding, dims), every)]
            apart = functional.pad(apart, [side for pair in reversed(ends) for side in pair])
            filters = weight.flip(tuple(range(2, dims + 2))).reshape(groups, -1, int(weight.shape[1]), *kernel).transpose(1, 2)
            return by_row(apart, filters, bias, groups, (1,) * dims, step)
        return conv

    return {getattr(functional, f"conv{dims}d"): convolution(dims) for dims in (1, 2, 3)} | {
        getattr(functional, f"conv_transpose{dims}d"): transposed(dims) for dims in (1, 2, 3)}
