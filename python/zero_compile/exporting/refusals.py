"""What torch does of which an export knows nothing, refused by name: of a model before anything is computed, and of its forward pass."""
import contextlib
import sys

from ..errors import UNSUPPORTED, ZeroError, need
from ..rewriting.tracing import place
from . import steps


def refuse(model):
    """Errors: what torch does beside the backward pass, of which an export knows nothing (unsupported)."""
    torch = need("torch", "exporting")
    if isinstance(model, torch.jit.ScriptModule):
        raise ZeroError(UNSUPPORTED, "a scripted module is in no trace", help="the module itself, without torch.jit.script")
    hooked = [name for name, p in model.named_parameters() if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None)]
    if hooked:
        raise ZeroError(UNSUPPORTED, "hooks on gradients are not in an export: of " + ", ".join(map(repr, hooked[:8])),
                        help="remove them; zero-compile's --clip-grad-norm and --param-groups do what most are for")
    complex_ones = [name for name, p in model.named_parameters() if p.is_complex()]
    if complex_ones:
        raise ZeroError(UNSUPPORTED, "complex parameters: " + ", ".join(map(repr, complex_ones[:8])),
                        help="two floats each: torch.view_as_complex of a parameter of shape [..., 2], which optimizers train alike")
    counting = [name for name, module in steps.batch_norms(model) if module.track_running_stats and module.momentum is None]
    if counting:
        raise ZeroError(UNSUPPORTED, "batch norms of momentum None, which keep the mean of all steps: " + ", ".join(map(repr, counting[:8])),
                        help="give them a momentum, or eval(), which leaves their statistics alone")


@contextlib.contextmanager
def refusing():
    """Errors: what a forward pass does that no exporter has: packed sequences, draws without a derivative here (unsupported). Gives a list of the places
    where it takes a gradient."""
    from torch.overrides import TorchFunctionMode
    torch, takes = need("torch", "exporting"), []

    class Refuses(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if getattr(function, "__name__", "") == "_pack_padded_sequence":
                raise ZeroError(UNSUPPORTED, f"a packed sequence ({place(sys._getframe(1))}), whose shape depends on the lengths",
                                help="whole sequences, and what counts by a mask or a gather: out[torch.arange(out.shape[0]), lengths - 1]")
            if getattr(function, "__name__", "") in ("_standard_gamma", "_sample_dirichlet", "poisson", "binomial"):
                raise ZeroError(UNSUPPORTED, f"draws of a Gamma, Beta, Dirichlet, Poisson or binomial distribution ({place(sys._getframe(1))}), which no graph has",
                                help="what normal or uniform numbers make: LogNormal, Kumaraswamy in the place of Beta, a softmax of normal numbers in that of Dirichlet")
            if function is torch.Tensor.backward:
                raise ZeroError(UNSUPPORTED, f"the loss takes a gradient itself (backward at {place(sys._getframe(1))}), into what no export has",
                                help="torch.autograd.grad(loss, inputs, create_graph=True), which gives it as tensors")
            if function is torch.autograd.grad:
                takes.append(place(sys._getframe(1)))
                if (kwargs or {}).get("is_grads_batched"):
                    raise ZeroError(UNSUPPORTED, f"gradients of a batch of outputs at once (is_grads_batched at {takes[-1]}), which exporters have not",
                                    help="one after the other: torch.autograd.grad(outputs[:, i].sum(), inputs, create_graph=True)")
            return function(*args, **kwargs or {})

    with Refuses():
        yield takes
