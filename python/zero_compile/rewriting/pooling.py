"""Pools that exporters refuse: a divisor of one's own, and windows of unequal size."""


def stand_ins(torch):
    """{torch's function: what stands for it}; NotImplemented from one: not for these arguments."""
    functional = torch.nn.functional

    def many(value, dims):
        return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims

    def divided(dims):
        pool = getattr(functional, f"avg_pool{dims}d")

        def avg_pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
            """Sums over whole windows, of what is padded so that there are no others, by the divisor."""
            if divisor_override is None:
                return NotImplemented
            kernel = many(kernel_size, dims)
            border = many(padding, dims)
            every = many(stride, dims) if stride is not None and stride != () and stride != [] else kernel
            ends = []
            for size, window, step, pad in zip(input.shape[-dims:], kernel, every, border):
                size, more = int(size), 0
                if ceil_mode:
                    count = -(-(size + 2 * pad - window) // step) + 1
                    count -= (count - 1) * step >= size + pad  # none begins in the padding
                    more = max(0, (count - 1) * step + window - (size + 2 * pad))
                ends = [pad, pad + more, *ends]
            volume = 1
            for window in kernel:
                volume *= window
            return pool(functional.pad(input, ends), kernel, every) * (volume / divisor_override)

        return avg_pool

    def in_windows(dims, pool):
        """Dimension by dimension, the last first: of equal maxima it is torch's that counts. Windows of one size are an exporter's."""
        def adaptive(input, output_size, return_indices=False):
            if return_indices:
                return NotImplemented
            first = input.dim() - dims
            wanted = [int(size) if out is None else out for out, size in zip(many(output_size, dims), input.shape[first:])]
            if all(int(size) % out == 0 for out, size in zip(wanted, input.shape[first:])):
                return NotImplemented
            for dim in reversed(range(dims)):
                size, out = int(input.shape[first + dim]), wanted[dim]
                bounds = [(at * size // out, -(-(at + 1) * size // out)) for at in range(out)]
                input = torch.cat([pool(input, first + dim, begin, end) for begin, end in bounds], first + dim)
            return input
        return adaptive

    def largest(input, dim, begin, end):
        return input.narrow(dim, begin, end - begin).max(dim, keepdim=True).values

    def mean(input, dim, begin, end):
        return input.narrow(dim, begin, end - begin).mean(dim, keepdim=True)

    return {**{getattr(functional, f"avg_pool{dims}d"): divided(dims) for dims in (2, 3)},
            **{getattr(functional, f"adaptive_max_pool{dims}d"): in_windows(dims, largest) for dims in (1, 2, 3)},
            **{getattr(functional, f"adaptive_avg_pool{dims}d"): in_windows(dims, mean) for dims in (1, 2, 3)}}
