"""Hugging Face models by task: which class, which inputs, random batches of them. Imports torch and transformers when called."""
import functools
import json
import pathlib

from . import adapters
from .errors import BAD_INPUT, UNSUPPORTED, USAGE, ZeroError, need
from .exporting import state, steps

# task: transformers' auto class, its inputs, and the endings of architectures that mean it
TASKS = {
    "causal-lm": ("AutoModelForCausalLM", "tokens", ("ForCausalLM", "LMHeadModel")),
    "masked-lm": ("AutoModelForMaskedLM", "masked", ("ForMaskedLM", "ForPreTraining")),
    "seq2seq": ("AutoModelForSeq2SeqLM", "pairs", ("ForConditionalGeneration",)),
    "speech-seq2seq": ("AutoModelForSpeechSeq2Seq", "spoken", ("ForConditionalGeneration",)),
    "ctc": ("AutoModelForCTC", "transcribed", ("ForCTC",)),
    "token-classification": ("AutoModelForTokenClassification", "token_classes", ("ForTokenClassification",)),
    "sequence-classification": ("AutoModelForSequenceClassification", "text_class", ("ForSequenceClassification",)),
    "question-answering": ("AutoModelForQuestionAnswering", "answers", ("ForQuestionAnswering",)),
    "image-classification": ("AutoModelForImageClassification", "image_class", ("ForImageClassification",)),
    "semantic-segmentation": ("AutoModelForSemanticSegmentation", "segments", ("ForSemanticSegmentation",)),
    "audio-classification": ("AutoModelForAudioClassification", "waves", ("ForSequenceClassification",)),
}
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
# Decided by Python while tracing, so an export would repeat one decision in every step.
DRAWN_IN_PYTHON = {"layerdrop": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "apply_spec_augment": False}


def read_config(path):
    """(folder or None, transformers configuration) of FOLDER or config.json."""
    path = pathlib.Path(path)
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise ZeroError(BAD_INPUT, "the folder holds no config.json: it is no Hugging Face model" if path.is_dir() else
                        "there is no such file or folder", where=str(path))
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as problem:
        raise ZeroError(BAD_INPUT, f"no JSON: {problem.msg}", where=f"{file}:{problem.lineno}:{problem.colno}") from problem
    except UnicodeDecodeError as problem:
        raise ZeroError(BAD_INPUT, f"not UTF-8 at byte {problem.start}", where=str(file)) from problem
    if not isinstance(fields, dict) or "model_type" not in fields:
        raise ZeroError(BAD_INPUT, 'no "model_type" in it: it is no configuration of transformers', where=str(file))
    return (file.parent if any((file.parent / name).exists() for name in WEIGHTS) else None), file, fields


def files(path):
    """What transformers may read of FOLDER or config.json, and of the folder of the model that an adapter in it is for."""
    folder = pathlib.Path(path) if pathlib.Path(path).is_dir() else pathlib.Path(path).parent
    read = [file for file in folder.iterdir() if file.is_file() and not file.match("*.onnx*")] if folder.is_dir() else []
    return read + (files(adapters.base_folder(folder)) if adapters.is_folder(folder) else [])


def open_config(path, trust_code):
    """The configuration of a folder or file, as transformers takes it: code is found by the folder alone."""
    path = path.parent if path.name == "config.json" else path
    hf = need("transformers", "a Hugging Face model")
    try:
        return hf.AutoConfig.from_pretrained(str(path), local_files_only=True, trust_remote_code=trust_code)
    except Exception as problem:
        raise ZeroError(BAD_INPUT, f"transformers {hf.__version__} refuses the configuration: {problem}", where=str(path)) from problem


def task_of(fields, asked):
    """The task asked for, or that which the configuration's architecture is made for."""
    if asked:
        if asked not in TASKS:
            raise ZeroError(USAGE, f'there is no task "{asked}"', help="tasks: " + ", ".join(TASKS))
        return asked
    named = fields.get("architectures")
    architecture = str(named[0]) if isinstance(named, list) and named else ""
    meant = [task for task, (_, _, endings) in TASKS.items() if architecture.endswith(endings)]
    known = [task for task in meant if builds(task, fields["model_type"])] or [task for task in TASKS if architecture and makes(task, architecture)]
    for task in known + meant:
        return task
    raise ZeroError(USAGE, "the configuration names no architecture that tells the task",
                    help="give --task: " + ", ".join(TASKS))


def classes_for(task):
    """Transformers' table for the task: configuration to class."""
    return getattr(need("transformers", "a Hugging Face model"), TASKS[task][0])._model_mapping


def makes(task, architecture):
    """Is it a class that transformers makes for the task, whatever its name ends in?"""
    names = classes_for(task)._model_mapping.values()
    return any(architecture == name for some in names for name in ((some,) if isinstance(some, str) else some))


def builds(task, model_type):
    """Does transformers' class for the task know models of this type?"""
    return any(config.model_type == model_type for config in classes_for(task).keys())


def load(path, task=None, seed=0, trust_code=False, dropout=True, notes=print):
    """(model in training mode, task, configuration): from the folder's weights, or initialised where there are none. Of a folder of
    peft's the adapter's model, with the adapter."""
    if adapters.is_folder(path):
        model, task, config = load(adapters.base_folder(path), task, seed, trust_code, dropout, notes)
        return adapters.load(model, path).train(), task, config
    torch, hf = need("torch", "exporting"), need("transformers", "exporting a Hugging Face model")
    folder, file, fields = read_config(path)
    if fields.get("auto_map") and not trust_code:
        raise ZeroError(UNSUPPORTED, "the model brings code of its own", where=f'{file}: "auto_map"',
                        help="read that code; --trust-remote-code runs it")
    task = task_of(fields, task)
    config = open_config(folder or file, trust_code)
    prepare(config, dropout, notes)
    auto = getattr(hf, TASKS[task][0])
    arguments = dict(attn_implementation="eager", trust_remote_code=trust_code)
    torch.manual_seed(seed)
    try:
        if folder is None:
            notes(f"{file}: no weights beside it: initialised with seed {seed}")
            model = auto.from_config(config, dtype=torch.float32, **arguments)
        else:
            model = auto.from_pretrained(str(folder), config=config, dtype=torch.float32, local_files_only=True, **arguments)
    except ZeroError:
        raise
    except Exception as problem:
        text = str(problem).strip()
        code = UNSUPPORTED if "Unrecognized configuration class" in text else BAD_INPUT
        raise ZeroError(code, f"transformers {hf.__version__} does not build it for {task}: {text.splitlines()[0][:600]}", where=str(path)) from problem
    dense_routing(model, notes)
    return model.float().train(), task, config


def prepare(config, dropout, notes):
    """What has to be said in the configuration, before the model is built, for an export that trains."""
    for part in parts(config):
        if hasattr(part, "use_cache"):
            part.use_cache = False
        for name, off in DRAWN_IN_PYTHON.items():
            if getattr(part, name, off) not in (off, None):
                notes(f"{name} {getattr(part, name)} is off: it is drawn by Python, which an export cannot repeat")
                setattr(part, name, off)
        if not dropout:
            steps.without_dropout(part)
    if getattr(config, "architectures", None) is None:
        config.architectures = []  # which auto classes with several models for a configuration go through
    if getattr(config, "problem_type", None) is None and hasattr(config, "problem_type") and config.num_labels != 1:  # one is a regression's
        config.problem_type = "single_label_classification"


def parts(config):
    """The configuration and those inside it."""
    yield config
    for value in vars(config).values():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from parts(value)


def dense_routing(model, notes):
    """Every expert sees every token, weighted by the router, with 0 where it was not chosen: shapes then depend on nothing."""
    told = "mixture of experts: exported with dense routing, each expert computes every token"
    if _dense_where_sorted(model):
        notes(told)
    try:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    except ImportError:
        return
    if not any(hasattr(module, "_is_expert_parallel") for module in model.modules()):
        return
    ALL_EXPERTS_FUNCTIONS.register("dense", _dense_experts)
    for part in parts(model.config):
        part._experts_implementation = "dense"
    for module in model.modules():
        if hasattr(module, "_is_expert_parallel"):
            module.config._experts_implementation = "dense"
    notes(told)


def _dense_experts(self, hidden_states, top_k_index, top_k_weights):
    import torch
    x = hidden_states.unsqueeze(0)  # [1, tokens, hidden]; weights are [experts, out, in], or [experts, in, out] where transposed

    def linear(x, name):
        weight = getattr(self, name)
        x = torch.matmul(x, weight if self.is_transposed else weight.transpose(1, 2))
        return x + getattr(self, name + "_bias").unsqueeze(1) if self.has_bias else x

    if self.has_gate:
        x = self._apply_gate(linear(x, "gate_up_proj"))
    else:
        x = self.act_fn(linear(x, "up_proj"))
    x = linear(x, "down_proj")
    if self.has_post_expert_norm:
        x = self.post_expert_norm(x)
    experts = torch.arange(x.shape[0], device=x.device)
    chosen = (top_k_index.unsqueeze(-1) == experts).to(x.dtype)  # [tokens, k, experts]
    share = (chosen * top_k_weights.unsqueeze(-1).to(x.dtype)).sum(1)  # [tokens, experts]
    return (x * share.transpose(0, 1).unsqueeze(-1)).sum(0).to(hidden_states.dtype)


def _dense_where_sorted(model):
    """Of models that sort tokens by expert and split them in as many as each has (JetMoe): is it one?"""
    import torch

    def gate(self, *inputs):
        """How many tokens each expert has stays a tensor."""
        listed, torch.Tensor.tolist = torch.Tensor.tolist, lambda counts: counts
        try:
            return super(type(self), self).forward(*inputs)
        finally:
            torch.Tensor.tolist = listed

    def experts(self, inputs, counts):
        own = (torch.arange(inputs.shape[0])[:, None] >= counts.cumsum(0)).sum(1)
        every = torch.matmul(inputs, self.weight.transpose(1, 2))  # [experts, tokens, out]
        return every.gather(0, own.reshape(1, -1, 1).expand(1, -1, every.shape[-1])).squeeze(0)

    forwards, found = {"TopKGating": gate, "ParallelExperts": experts}, False
    for module in model.modules():
        for ending, forward in forwards.items():
            if type(module).__name__.endswith(ending) and type(module).__module__.startswith("transformers."):
                module.__class__, found = type(type(module).__name__, (type(module),), {"forward": forward}), True
    return found


def vocabulary(config):
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return getattr(text, "vocab_size", None)


def batch(task, config, rows, length, image_size=None, seed=0):
    """Random inputs, {name: tensor}, in the order of the graph's inputs."""
    torch = need("torch", "exporting")
    generator = torch.Generator().manual_seed(seed)
    draw = lambda high, *shape: torch.randint(0, max(1, high), shape, generator=generator)
    kind = TASKS[task][1]
    if kind in ("image_class", "segments"):
        size = image_size or getattr(config, "image_size", None) or 224
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        pixels = torch.randn(rows, getattr(config, "num_channels", 3), height, width, generator=generator)
        labels = classes(config, draw, generator, rows) if kind == "image_class" else draw(config.num_labels, rows, height, width)
        return {"pixel_values": pixels, "labels": labels}
    if kind == "waves":
        return {**sound(config, rows, length, generator), "labels": draw(config.num_labels, rows)}
    words = vocabulary(config)
    if kind == "transcribed":
        letters, blank = draw(words - 1, rows, heard(config, length) // 2), getattr(config, "pad_token_id", None) or 0
        letters += (letters >= blank).long()
        letters[::2, letters.shape[1] - letters.shape[1] // 4:] = -100
        return {**sound(config, rows, length, generator), "labels": letters}
    if kind == "spoken":
        if not getattr(config, "num_mel_bins", None) or not getattr(config, "max_source_positions", None):
            raise unknown_sound(config)
        return {**sound(config, rows, length, generator), "labels": draw(words, rows, length)}
    if not words:
        raise ZeroError(UNSUPPORTED, f"the configuration of {config.model_type} has no vocab_size", help="is it made for another task?")
    ids = draw(words, rows, length)
    if kind == "tokens":
        return {"input_ids": ids, "labels": ids.clone()}
    mask = torch.ones_like(ids)
    mask[::2, length - length // 4:] = 0
    text = {"input_ids": ids, "attention_mask": mask}
    masked = lambda labels: torch.where(mask == 1, labels, torch.full_like(labels, -100))
    if kind == "masked":
        return {**text, "labels": masked(ids)}
    if kind == "token_classes":
        return {**text, "labels": masked(draw(config.num_labels, rows, length))}
    if kind == "pairs":
        return {**text, "labels": draw(words, rows, length)}
    if kind == "answers":
        return {**text, "start_positions": draw(length // 2, rows), "end_positions": draw(length // 2, rows)}
    return {**text, "labels": classes(config, draw, generator, rows)}


def sound(config, rows, length, generator):
    """What a model hears, {name: tensor}: waves, or what its processor makes of them."""
    bins, frames, channels = (getattr(config, name, None) for name in ("num_mel_bins", "max_source_positions", "feature_projection_input_dim"))
    draw = lambda *shape: need("torch", "exporting").randn(rows, *shape, generator=generator)
    if bins and frames:
        return {"input_features": draw(bins, 2 * frames)}  # whose first convolutions halve them
    if bins and getattr(config, "max_length", None):
        return {"input_values": draw(config.max_length, bins)}
    return {"input_features": draw(length, channels)} if channels else {"input_values": draw(length)}


def unknown_sound(config):
    return ZeroError(UNSUPPORTED, f"what {config.model_type} hears is not known here", help="export it as MODULE:FUNCTION, with a batch of its inputs")


def heard(config, length):
    """How many frames a model makes of what it hears: what CTC reads letters from."""
    kernels, strides = getattr(config, "conv_kernel", None), getattr(config, "conv_stride", None)
    if getattr(config, "feature_projection_input_dim", None):
        return length
    if not kernels or not strides:
        raise unknown_sound(config)
    frames = functools.reduce(lambda samples, window: (samples - window[0]) // window[1] + 1, zip(kernels, strides), length)
    if frames < 2:
        raise ZeroError(USAGE, f"waves of {length} samples are too short for the model's convolutions, which make {max(0, frames)} frames of them", help="a larger --seq")
    return frames


def classes(config, draw, generator, rows):
    """Labels of rows, of the type that the model's loss takes."""
    problem, count = getattr(config, "problem_type", None), config.num_labels
    if problem == "multi_label_classification":
        return draw(2, rows, count).float()
    if problem == "regression" or problem is None and count == 1:
        return need("torch", "exporting").randn(*(rows,) if count == 1 else (rows, count), generator=generator)
    return draw(count, rows)


def forward(model, task):
    """loss(model, batch): the model's own loss, of next tokens for causal-lm, also where the model takes labels as they stand. Windows of tokens
    have no padding; a mask of ones says so to code that would ask."""
    torch, of_tokens = need("torch", "exporting"), TASKS[task][1] == "tokens"

    def loss(model, inputs):
        if of_tokens and accepts(model, "attention_mask"):
            inputs = {**inputs, "attention_mask": inputs["input_ids"].new_ones(inputs["input_ids"].shape)}
        if as_they_stand:
            labels = inputs["labels"]
            inputs = {**inputs, "labels": torch.cat([labels[:, 1:], torch.full_like(labels[:, :1], -100)], 1)}
        try:
            return model(**inputs).loss
        except (IndexError, RuntimeError) as problem:
            raise too_long(model.config, inputs) or problem

    as_they_stand = False
    as_they_stand = of_tokens and reads_first_label(model, loss)
    return loss


def reads_first_label(model, loss):
    """Does the loss depend on the first token's label, which is nobody's next? Then the model does not shift its labels."""
    torch = need("torch", "exporting")
    ids = torch.arange(1, 5).expand(2, -1) % max(2, vocabulary(model.config) or 2)
    with state.kept(model), torch.no_grad():
        model.eval()
        try:
            losses = [float(loss(model, {"input_ids": ids, "labels": torch.cat([first, ids[:, 1:]], 1)})) for first in (ids[:, :1], 0 * ids[:, :1])]
        except Exception:  # whatever a model says of rows of four tokens; of its own batch it says it again
            return False
    return abs(losses[0] - losses[1]) > 1e-6 * abs(losses[0])


def too_long(config, inputs):
    """The error of rows with more tokens than the model has positions; None where they are not: many models have no last one."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    positions, length = getattr(text, "max_position_embeddings", None), inputs["input_ids"].shape[1] if "input_ids" in inputs else 0
    if not isinstance(positions, int) or length <= positions:
        return None
    return ZeroError(USAGE, f"rows of {length} tokens are longer than the {positions} positions of the model", help=f"--seq {positions}, or less")


def accepts(model, argument):
    import inspect
    return argument in inspect.signature(model.forward).parameters
