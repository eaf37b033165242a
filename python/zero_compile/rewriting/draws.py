"""Numbers that a forward pass draws: a variational autoencoder's noise, a diffusion's times, masks. In a training zero-run draws them, as it does
dropout's; compared with torch is what both make of the same numbers."""
import contextlib
import random
import sys

from ..errors import need
from .tracing import place

PERIOD, STEP = 128, 37  # of the numbers that stand for drawn ones: shares of a power of two, which no product with a whole number rounds


class Numbers:
    """What stands for a draw, made of one kind of number each: exporters have both."""

    def __init__(self, torch):
        self.torch = torch

    def uniform(self, like):
        return self.torch.rand_like(like)

    def normal(self, like):
        return self.torch.randn_like(like)

    def order(self, count):
        return self.torch.rand(count).argsort()


class Fixed(Numbers):
    """The same numbers in torch, in a trace and in what is compiled from it, others in each draw, and of other data: what Python takes from one in a trace
    is found like what it takes from the data."""

    def __init__(self, torch, batch):
        super().__init__(torch)
        self.draw, self.shift = 0, sum(self.whole(value) for value in batch.values()) % PERIOD

    def whole(self, value):
        first = value.detach()[:1].flatten()
        if first.is_floating_point():
            first = (first.float().abs().clamp(max=1e6) * 1000).floor()
        return first.to(self.torch.int64).sum()

    def uniform(self, like):
        self.draw += 1
        place = self.torch.ones_like(like, dtype=self.torch.int64).flatten().cumsum(0).reshape(like.shape) + 11 * self.draw + self.shift
        return ((place * STEP % PERIOD).to(like.dtype) + 0.5) / PERIOD

    def normal(self, like):
        return (self.uniform(like) - 0.5) * 3.5  # of a variance of about 1

    def order(self, count):
        return self.torch.arange(count).flip(0)


def stand_ins(torch, numbers):
    """{torch's function that draws: the same by `numbers`}; NotImplemented from one: not for these arguments."""
    tensor = torch.Tensor

    def zeros(size, dtype=None, **_):
        size = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
        return torch.zeros(size, dtype=dtype)

    def of_shape(draw):
        def drawn(*size, **options):
            size = options.pop("size", size)
            dtype = options.get("dtype")
            return NotImplemented if dtype is not None and not dtype.is_floating_point else draw(zeros(size, **options))
        return drawn

    def like(draw):
        def drawn(input, *, dtype=None, **_):
            return draw(torch.zeros_like(input, dtype=dtype))
        return drawn

    def whole(low, high, shape, dtype):
        return (numbers.uniform(shape) * (high - low)).floor().to(dtype or torch.int64) + low

    def randint(low, high=None, size=None, *, dtype=None, **_):
        if size is None:  # randint(high, size)
            low, high, size = 0, low, high
        return whole(low, high, zeros((size,)), dtype)

    def randint_like(input, low, high=None, *, dtype=None, **_):
        low, high = (0, low) if high is None else (low, high)
        return whole(low, high, torch.zeros_like(input, dtype=torch.float32), dtype or input.dtype)

    def normal(mean, std=1.0, size=None, **_):
        if size is not None:
            return numbers.normal(zeros((size,))) * std + mean
        mean, std = (x.detach() if isinstance(x, tensor) else x for x in (mean, std))
        return numbers.normal(torch.zeros_like(mean * std if isinstance(mean, tensor) else std * 1.0)) * std + mean

    def bernoulli(input, p=None, **_):
        chance = input.detach() if p is None else p
        return (numbers.uniform(torch.zeros_like(input)) < chance).to(input.dtype)

    def multinomial(input, num_samples, replacement=False, **_):
        """By the largest after Gumbel's noise (Gumbel 1954)."""
        if num_samples != 1 and not replacement:
            return NotImplemented
        rows = input.detach() if input.dim() == 2 else input.detach().unsqueeze(0)
        scores = rows.log().unsqueeze(1).expand(-1, num_samples, -1)
        chosen = (scores + gumbel(torch.zeros_like(scores))).argmax(-1)
        return chosen if input.dim() == 2 else chosen[0]

    def gumbel(like):
        return -(-(numbers.uniform(like) + 1e-20).log()).log()

    def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
        soft = ((logits + gumbel(torch.zeros_like(logits))) / tau).softmax(dim)
        return torch.zeros_like(logits).scatter(dim, soft.argmax(dim, keepdim=True), 1.0) - soft.detach() + soft if hard else soft

    def rrelu(input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
        if not training:
            return torch.nn.functional.leaky_relu(input, (lower + upper) / 2, inplace)
        slopes = numbers.uniform(torch.zeros_like(input)) * (upper - lower) + lower
        result = torch.where(input >= 0, input, input * slopes)
        return input.copy_(result) if inplace else result

    def in_place(drawn):
        return lambda input, *args, **options: input.copy_(drawn(torch.zeros_like(input), *args, **{k: v for k, v in options.items() if k != "generator"}))

    return {
        torch.rand: of_shape(numbers.uniform), torch.randn: of_shape(numbers.normal), torch.rand_like: like(numbers.uniform),
        torch.randn_like: like(numbers.normal), torch.randint: randint, torch.randint_like: randint_like, torch.normal: normal,
        torch.bernoulli: bernoulli, tensor.bernoulli: bernoulli, torch.multinomial: multinomial, tensor.multinomial: multinomial,
        torch.randperm: lambda n, **_: numbers.order(n), torch.nn.functional.gumbel_softmax: gumbel_softmax,
        torch.nn.functional.rrelu: rrelu,
        tensor.bernoulli_: in_place(lambda zero, p=0.5: (numbers.uniform(zero) < p).to(zero.dtype)),
        tensor.normal_: in_place(lambda zero, mean=0.0, std=1.0: numbers.normal(zero) * std + mean),
        tensor.uniform_: in_place(lambda zero, to_from=0.0, to=1.0, **ends: numbers.uniform(zero) * (to - ends.get("from", to_from)) + ends.get("from", to_from)),
        tensor.exponential_: in_place(lambda zero, lambd=1.0: -(1 - numbers.uniform(zero)).log() / lambd),
    }


def fixed(loss):
    """loss(model, batch), with fixed numbers in the place of all that is drawn."""
    from torch.overrides import TorchFunctionMode
    torch = need("torch", "exporting")

    class Fixes(TorchFunctionMode):
        def __init__(self, batch):
            super().__init__()
            self.answers = stand_ins(torch, Fixed(torch, batch))

        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = self.answers[function](*args, **kwargs or {}) if function in self.answers else NotImplemented
            return function(*args, **kwargs or {}) if result is NotImplemented else result

    def of(model, batch):
        with Fixes(batch):
            return loss(model, batch) if loss else model(**batch)

    of.is_fixed = True  # what no number stands for is drawn by torch in it too, and found to differ
    return of


@contextlib.contextmanager
def watched():
    """Gives a list, into which each draw of the model's own goes: what is called, and where, beside where its generator stood."""
    from torch.overrides import TorchFunctionMode
    torch = need("torch", "exporting")
    drawing, seen = stand_ins(torch, Numbers(torch)), []
    quiet = {torch.nn.functional.rrelu: lambda input, lower=0, upper=0, training=False, inplace=False: not training}

    class Watches(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function in drawing and not (function in quiet and quiet[function](*args, **kwargs or {})):
                generator = (kwargs or {}).get("generator") or torch.default_generator
                seen.append((f"{function.__name__} at {place(sys._getframe(1))}", generator.get_state().numpy().tobytes()))
            return function(*args, **kwargs or {})

    with Watches():
        yield seen


@contextlib.contextmanager
def the_same():
    """What is drawn in it is the same each time, and nobody's draws afterwards are others for it."""
    torch, numpy = need("torch", "exporting"), need("numpy", "exporting")
    python, numbers = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        try:
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(numbers)


def seeded(drawn, computes):
    """The first of what `watched` saw whose numbers are the same in every forward pass, of a generator that is seeded on the way; None: there is none."""
    torch, passes = need("torch", "exporting"), [drawn]
    with the_same():
        for seed in (1, 2) if drawn else ():
            torch.manual_seed(seed)
            with watched() as again:
                computes()
            passes.append(again)
    return next((draw for (draw, stood), *others in zip(*passes) if all(other == (draw, stood) for other in others)), None)


def states():
    """Where Python's generator stands, and numpy's."""
    _, key, *others = need("numpy", "exporting").random.get_state()
    return random.getstate(), (key.tobytes(), *others)


@contextlib.contextmanager
def of_python():
    """Gives a list, into which draws go that a trace would keep as they are in it: whose, and of Python's random where."""
    drawn = []

    def look(frame, event, function):
        if event == "c_call" and isinstance(getattr(function, "__self__", None), random.Random) and "state" not in function.__name__:
            while frame.f_back and frame.f_code.co_filename == random.__file__:
                frame = frame.f_back
            drawn.append(f"Python's random draws ({place(frame)})")

    before, (_, numpys) = sys.getprofile(), states()
    sys.setprofile(look)
    try:
        yield drawn
    finally:
        sys.setprofile(before)
        if states()[1] != numpys:
            drawn.append("numpy.random draws")


def go_on(computes):
    """Does what is drawn depend on where the generators stand? Not of one that is seeded on the way."""
    numpy, ends = need("numpy", "exporting"), []
    with the_same():
        for seed in (1, 2):
            random.seed(seed)
            numpy.random.seed(seed)
            begins = states()
            computes()
            ends.append([(end, end != begin) for begin, end in zip(begins, states())])
    return any(moved and end != other for (end, moved), (other, _) in zip(*ends))
