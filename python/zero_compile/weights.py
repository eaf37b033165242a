"""A run's weights under the model's own names: as arrays, as a file, or as a folder that from_pretrained opens."""
import contextlib
import json
import pathlib
import shutil
import tempfile

from . import adapters, outputs, programs, record
from .errors import BAD_INPUT, IO, MISMATCH, USAGE, ZeroError, need
from .tasks import open_config, read_config

# Of a model's folder: its weights, in whatever format, and what is written anew; the rest goes along, which tokenizers and processors need.
NOT_BESIDE = ("*.safetensors*", "*.bin*", "*.pt", "*.pth", "*.ckpt*", "*.h5", "*.msgpack", "*.onnx*", "*.gguf", "*.ot", "*.npz", "config.json", ".*")
LARGEST_BESIDE = 64 << 20  # bytes: larger ones are weights of another format, or texts


def checkpoint_of(run):
    """A run's newest, `final` or of a step: who goes on with a run that has ended has newer ones until it ends again. Or the checkpoint that
    `run` is."""
    run = pathlib.Path(run)
    if (run / "manifest.json").is_file():
        return run
    steps = {p.parent: int(p.parent.name[5:]) for p in run.glob("step-*/manifest.json") if p.parent.name[5:].isdecimal()}
    if (run / "final/manifest.json").is_file():
        steps[run / "final"] = of_manifest(run / "final", lambda manifest: int(manifest["step"]), "does not say after which step it was written")
    if not steps:
        raise ZeroError(BAD_INPUT, "there is no checkpoint in it" if run.is_dir() else "there is no such folder", where=str(run),
                        help="it is what zero-run --out names")
    return max(steps, key=lambda path: (steps[path], path.name == "final"))


def of_manifest(checkpoint, entry, otherwise):
    """What `entry` takes from the checkpoint's manifest; `otherwise`: what is wrong with one that has none."""
    file = checkpoint / "manifest.json"
    try:
        return entry(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as problem:
        raise ZeroError(BAD_INPUT, f"it {otherwise}: {problem!r}", where=str(file)) from problem


def model_of(checkpoint):
    """The ONNX file that the run was compiled from."""
    return of_manifest(checkpoint, lambda manifest: manifest["model"]["path"], "does not name its model")


def state_dict(run, model=None):
    """({name: numpy array} with tied names, the export's record)."""
    files = need("safetensors.numpy", "zero import")
    checkpoint = checkpoint_of(run)
    model = model or model_of(checkpoint)
    if not pathlib.Path(model).is_file():
        raise ZeroError(BAD_INPUT, f'the model "{model}" that the run was made from is not there', where=str(checkpoint),
                        help="--model says where it is now")
    details = record.read(model)
    if "tied" not in details:
        raise ZeroError(USAGE, "the model was not written by zero export, so names in it need not be torch's", where=str(model),
                        help=f"zero-run export {checkpoint} --safetensors OUT writes the weights under the graph's names")
    with tempfile.TemporaryDirectory(prefix="zero-import-") as folder:
        file = pathlib.Path(folder) / "weights.safetensors"
        programs.call("zero-run", "export", checkpoint, "--safetensors", file, "--model", model)
        state = {name: value for name, value in files.load_file(file).items() if name not in details.get("unsaved", ())}
    if counted := details.get("counts", {}).keys() & state.keys():  # what batch norms count is in no graph
        passes = of_manifest(checkpoint, lambda manifest: int(manifest["step"]) * int(manifest["plan"]["accumulation"]), "does not say how many steps it has made")
        state |= {name: need("numpy", "zero import").asarray(state[name] + passes * details["counts"][name]) for name in counted}
    return state, details


def to_file(run, output, model=None):
    """safetensors, for load_state_dict."""
    files = need("safetensors.numpy", "zero import")
    checkpoint = checkpoint_of(run)
    source = pathlib.Path(model or model_of(checkpoint))
    outputs.check(output, [*checkpoint.iterdir(), source, source.with_name(source.name + ".data")])
    state, details = state_dict(run, model)
    folder = pathlib.Path(output).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".zero-import-", dir=folder) as temporary:
        file = pathlib.Path(temporary) / "weights.safetensors"
        with writing(output):
            files.save_file(state, file)
        outputs.put(file, output)
    return state, details


@contextlib.contextmanager
def writing(output):
    """safetensors tells of a full disk by an error of its own."""
    error = need("safetensors", "zero import").SafetensorError
    try:
        yield
    except error as problem:
        raise ZeroError(IO, str(problem).rpartition("I/O error: ")[2], where=str(output)) from problem


def to_hf(run, folder, output, model=None, trust_code=False):
    """`output` becomes a copy of the Hugging Face folder with the run's weights; of a model of peft's, the adapter's folder. Returns
    (tensors, names the loss does not use)."""
    torch, hf = need("torch", "zero import --hf"), need("transformers", "zero import --hf")
    hf.utils.logging.disable_progress_bar()
    outputs.check_folder(output)
    state, details = state_dict(run, model)
    if adapters.is_folder(folder):
        folder = adapters.base_folder(folder)
    source, file, fields = read_config(folder)
    if fields.get("auto_map") and not trust_code:
        raise ZeroError(4, "the model brings code of its own", where=f'{file}: "auto_map"', help="read that code; --trust-remote-code runs it")
    output = pathlib.Path(output)
    adapter = details.get("adapter")
    name = adapter["class"] if adapter else details["class"]
    kind = class_of(name, file.parent, fields, trust_code)
    config = open_config(source or file, trust_code)
    torch.manual_seed(0)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    if not any(is_a(each, kind.config_class) for each in (config, text)):
        raise ZeroError(MISMATCH, f"the run is of a {name}, the folder of a model of another kind, {config.model_type}", where=str(folder),
                        help="--hf names the model that was exported")
    try:
        target = (kind._from_config(config, dtype=torch.float32) if source is None else
                  kind.from_pretrained(str(source), config=config, dtype=torch.float32, local_files_only=True))
    except Exception as problem:
        raise ZeroError(MISMATCH, f"transformers {hf.__version__} does not build {name} of it: {problem}", where=str(folder)) from problem
    state = {name: torch.from_numpy(value.copy()) for name, value in state.items()}
    if adapter:
        target = adapters.rebuild(target, adapter)
        adapters.check_base(target, state, adapter, set(details["frozen"]), folder)
    fill(target, state, details, folder)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".zero-import-", dir=output.resolve() if output.exists() else output.resolve().parent) as temporary:
        whole = pathlib.Path(temporary) / "model"
        with writing(output):
            adapters.save(target, file.parent, whole) if adapter else target.save_pretrained(whole)
        for path in beside(file, trust_code):
            if not (whole / path.name).exists():
                shutil.copy(path, whole / path.name)
        outputs.put_folder(whole, output)
    return len(state), details["unused"]


def beside(file, trust_code):
    """What goes along with a model whose configuration is `file`; code only where it may run. Beside a file of another name than a model's
    folder has lies anything."""
    return [path for path in sorted(file.parent.iterdir()) if file.name == "config.json" and path.is_file() and
            not any(path.match(pattern) for pattern in NOT_BESIDE) and path.stat().st_size <= LARGEST_BESIDE and
            (trust_code or path.suffix != ".py")]


def class_of(name, folder, fields, trust_code):
    """The class of that name: of the code that the folder brings, where that may run, or of transformers."""
    hf = need("transformers", "zero import --hf")
    references = [each for value in (fields.get("auto_map") or {}).values() for each in (value if isinstance(value, list) else [value]) if each]
    for reference in references if trust_code else []:
        if reference.rpartition(".")[2] == name:
            from transformers.dynamic_module_utils import get_class_from_dynamic_module
            return get_class_from_dynamic_module(reference, str(folder), local_files_only=True)
    kind = getattr(hf, name, None)
    if kind is None:
        raise ZeroError(MISMATCH, f'transformers {hf.__version__} has no class "{name}"' + (", nor has the folder's code" if references else ""), where=str(folder))
    return kind


def check_class(model, folder, trust_code):
    """Before a training: its weights will find their class."""
    adapter = adapters.describe(model).get("adapter")
    if adapters.is_folder(folder):
        folder = adapters.base_folder(folder)
    _, file, fields = read_config(folder)
    class_of(adapter["class"] if adapter else type(model).__name__, file.parent, fields, trust_code)


def is_a(config, kind):
    """isinstance; transformers has a folder's code once for its configurations and once for its models."""
    own = "transformers_modules."
    return isinstance(config, kind) or any(each.__name__ == kind.__name__ and each.__module__.startswith(own) and kind.__module__.startswith(own)
                                           for each in type(config).__mro__)


def fill(target, state, details, folder):
    """load_state_dict with every name accounted for: none unexpected, none missing but what the loss does not use."""
    own = target.state_dict()
    wrong = [(name, tuple(value.shape), tuple(own[name].shape)) for name, value in state.items()
             if name in own and value.shape != own[name].shape]
    parameters = {name for name, _ in target.named_parameters(remove_duplicate=False)}
    missing = sorted(parameters - set(state) - set(details["unused"]) - set(details["tied"]))
    unexpected = sorted(set(state) - set(own))
    # Buffers that are not part of the state (tables of cosines) may be in the graph.
    unexpected = [name for name in unexpected if name not in dict(target.named_buffers())]
    if wrong or missing or unexpected:
        lines = [f"  {name}: {got} instead of {want}" for name, got, want in wrong[:20]]
        lines += [f"  {name}: not in the run" for name in missing[:20]] + [f"  {name}: not in the model" for name in unexpected[:20]]
        raise ZeroError(MISMATCH, "the run's weights are not this model's:\n" + "\n".join(lines), where=str(folder))
    target.load_state_dict({name: value for name, value in state.items() if name in own}, strict=False)
