"""Models of peft: an adapter's folder as a model to train, and a run's weights back into such a folder. Imports peft when called."""
import json
import pathlib
import tempfile

from .errors import BAD_INPUT, MISMATCH, UNSUPPORTED, ZeroError, need

CONFIG = "adapter_config.json"


def is_folder(path):
    """Is it an adapter beside nothing else: its model lies elsewhere?"""
    path = pathlib.Path(path)
    return (path / CONFIG).is_file() and not (path / "config.json").is_file()


def base_folder(path):
    """The folder of the model that an adapter's folder is for."""
    file = pathlib.Path(path) / CONFIG
    try:
        base = json.loads(file.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (ValueError, AttributeError) as problem:
        raise ZeroError(BAD_INPUT, f"no JSON object: {problem}", where=str(file)) from problem
    if not base or not pathlib.Path(base).is_dir():
        raise ZeroError(BAD_INPUT, f'the adapter\'s model "{base}" is no folder here', where=f'{file}: "base_model_name_or_path"',
                        help="download that model, and name its folder there")
    return base


def load(model, path):
    """`model` with the adapter of the folder, to be trained on."""
    peft = need("peft", "exporting an adapter")
    try:
        return peft.PeftModel.from_pretrained(model, str(path), is_trainable=True)
    except Exception as problem:
        raise ZeroError(BAD_INPUT, f"peft {peft.__version__} does not open the adapter: {problem}", where=str(path)) from problem


def describe(model):
    """What an export's record says of a model of peft, under "adapter": its configuration; of another model nothing."""
    import sys
    peft = sys.modules.get("peft")
    if not peft or not isinstance(model, peft.PeftModel):
        return {}
    if len(model.peft_config) != 1:
        raise ZeroError(UNSUPPORTED, f"the model has {len(model.peft_config)} adapters: {', '.join(model.peft_config)}",
                        help="delete_adapter(), or merge_and_unload() those that are not to be trained")
    name, config = next(iter(model.peft_config.items()))
    with tempfile.TemporaryDirectory(prefix="zero-adapter-") as folder:
        config.save_pretrained(folder)  # which makes JSON of its sets
        fields = json.loads((pathlib.Path(folder) / CONFIG).read_text(encoding="utf-8"))
    return {"adapter": {"name": name, "class": type(model.get_base_model()).__name__, "config": fields}}


def rebuild(base, described):
    """The model of peft that was exported, around `base`, its adapter fresh."""
    peft = need("peft", "zero import of an adapter")
    with tempfile.TemporaryDirectory(prefix="zero-adapter-") as folder:
        (pathlib.Path(folder) / CONFIG).write_text(json.dumps(described["config"]), encoding="utf-8")
        try:
            config = peft.PeftConfig.from_pretrained(folder)
            config.inference_mode = False
            return peft.get_peft_model(base, config, adapter_name=described["name"])
        except Exception as problem:
            raise ZeroError(MISMATCH, f"peft {peft.__version__} does not put the adapter on this model: {problem}") from problem


def check_base(model, state, described, frozen, folder):
    """An adapter is all that is written: what else the run has is as in the folder. `model` is the one of peft, its base just opened; `frozen`:
    the names that did not train."""
    import torch
    peft, own = need("peft", "zero import of an adapter"), model.state_dict()
    keys = peft.get_peft_model_state_dict(model, adapter_name=described["name"], save_embedding_layers=False)

    prompts = model.peft_config[described["name"]].is_prompt_learning

    def is_written(name):
        key = name.replace(f".{described['name']}", "")  # peft writes DoRA's magnitudes without their "weight"
        return prompts and name.startswith("prompt_encoder.") or ".modules_to_save." in name or key in keys or key.removesuffix(".weight") in keys

    other = [name for name in state if name in own and not is_written(name) and not torch.equal(state[name], own[name].to(state[name].dtype))]
    for names, what, help in (
            ([name for name in other if name in frozen], "the adapter was trained beside other weights than the folder has",
             "--hf names the model that was exported; one that was initialised has to be saved before it is exported"),
            ([name for name in other if name not in frozen], "what was trained and is no part of the adapter would be lost",
             "peft's modules_to_save makes modules that train a part of it; zero_compile.import_weights gives all arrays")):
        if names:
            raise ZeroError(MISMATCH, what + ":\n" + "\n".join(f"  {name}" for name in names[:20]), where=str(folder), help=help)


def save(model, base, output):
    """adapter_model.safetensors and adapter_config.json, which names `base`."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = str(pathlib.Path(base).resolve())
    model.save_pretrained(str(output))
