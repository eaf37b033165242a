"""zero-compile from Python: export a model, compile its training step, train it, take its weights home.

    import zero_compile
    zero_compile.export(model, batch, "model.onnx")
    plan = zero_compile.compile("model.onnx", dim="batch=8", world_size=4, zero_stage=3)
    for step in zero_compile.train(plan, tokens="data.bin", steps=100):
        print(step["loss"])
"""
from .errors import ZeroError
from .programs import Run, compile, train

__version__ = "0.1.0"
__all__ = ["ZeroError", "Run", "compile", "export", "import_weights", "tokenize", "train"]


def export(*arguments, **options):
    """zero_compile.exporting.export.export, which imports torch."""
    from .exporting.export import export as function
    return function(*arguments, **options)


def tokenize(*arguments, **options):
    """zero_compile.text.tokens.write, which imports tokenizers."""
    from .text.tokens import write as function
    return function(*arguments, **options)


def import_weights(*arguments, **options):
    """zero_compile.weights.state_dict: what a run has learned, under the model's own names."""
    from .weights import state_dict as function
    return function(*arguments, **options)
