#!/usr/bin/env python3
"""Makes the exported training graphs of this folder, with PyTorch's numbers.

    python generate.py [--out FOLDER] [MODEL ...]        # default: every model, into this folder

Each FOLDER/MODEL/ gets the ONNX exports, inputs.safetensors, golden.json and exports.json; FOLDER/NOTES.md is rewritten from
all exports.json found there. README.md says what every file holds, and which packages this needs.
"""

import argparse
import collections
import json
from pathlib import Path

import numpy as np
import onnx
import torch
from safetensors.numpy import save_file

from exports import describe, export, first_line, verify
from goldens import golden, versions
from specs import BATCH, MODELS, STEPS

HERE = Path(__file__).resolve().parent


def generate(name, spec, out):
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    inputs = spec.inputs(torch.Generator().manual_seed(7), STEPS * BATCH)
    save_file({n: np.ascontiguousarray(t.numpy()) for n, t in inputs.items()}, str(folder / "inputs.safetensors"))
    report = {"model": name, "versions": versions(), "exports": {}}
    g = golden(name, spec, inputs)
    old = folder / "golden.json"
    if old.exists():  # what ort_artifacts.py added stays
        for k, v in json.loads(old.read_text()).items():
            if k.startswith("loss_ort") or k.startswith("ort_"):
                g.setdefault(k, v)
    old.write_text(json.dumps(g, indent=1) + "\n")
    for key in spec.exports:
        path = folder / f"{key}.onnx"
        try:
            export(spec, inputs, key, path)
        except Exception as e:
            path.unlink(missing_ok=True)
            report["exports"][key] = {"error": first_line(e)}
            print(f"{name}/{key}: FAILED {first_line(e)[:200]}", flush=True)
            continue
        entry = {"bytes": path.stat().st_size}
        data = folder / f"{key}.onnx.data"
        if data.exists():
            entry["external_bytes"] = data.stat().st_size
        entry.update(describe(onnx.load(str(path), load_external_data=False)))
        entry.update(verify(path, spec, inputs, key))
        steps = min(g["reliable_steps"].values())
        if entry["golden"] and steps < STEPS:
            entry["golden"] = False
            entry["golden_reasons"] = [f"f32 and f64 agree for the first {steps} steps only"]
        report["exports"][key] = entry
        print(
            f"{name}/{key}: {entry['nodes']} nodes, {entry['bytes']} bytes, checker {entry['checker'][:60]}, "
            f"ort {entry.get('ort_rel_err', entry.get('ort'))}, golden {entry['golden']}",
            flush=True,
        )
    (folder / "exports.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def write_notes(out):
    """One table over all exports, rebuilt from exports.json."""
    lines = [
        "# Exports (written by generate.py)",
        "",
        "`ort` / `ort'`: largest relative error of the ONNX Runtime forward loss (graph optimizations off) against PyTorch",
        "over the 16 half-batches, with the stored parameters / after adding N(0, 0.02) to every parameter.",
        "`golden`: golden.json is valid for this file.",
        "",
        "| file | KiB | nodes | ops | init | checker | ort | ort' | golden | parameters |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    errors, union = [], collections.defaultdict(set)
    number = lambda e, k: f"{e[k]:.0e}" if k in e else str(e.get("ort", "-")).replace("|", "/")[:60]
    for path in sorted(out.glob("*/exports.json")):
        report = json.loads(path.read_text())
        for key, e in report["exports"].items():
            label = f"{report['model']}/{key}"
            if "error" in e:
                errors.append(f"- {label}: `{e['error']}`")
                continue
            union["ts" if key.startswith("ts") else "dynamo opt" if "opt" in key else "dynamo"] |= set(e["ops"])
            remarks = []
            for field, word in (("lost_parameters", "lost"), ("untied_parameters", "untied"), ("merged_parameters", "merged into")):
                if e[field]:
                    remarks.append(f"{word} {len(e[field])}")
            if e["renamed"]:
                remarks.append(f"renamed {len(e['renamed'])}")
            lines.append(
                f"| {label} | {e['bytes'] / 1024:.0f} | {e['nodes']} | {len(e['ops'])} | {e['initializers']} "
                f"| {e['checker'][:40]} | {number(e, 'ort_rel_err')} | {number(e, 'ort_rel_err_perturbed')} "
                f"| {'yes' if e['golden'] else 'no: ' + ', '.join(e['golden_reasons'])} | {', '.join(remarks) or 'names kept'} |"
            )
    lines += ["", "## Failed exports", "", *(errors or ["none"]), "", "## Op types", ""]
    for kind in sorted(union):
        lines.append(f"- {kind} ({len(union[kind])}): {' '.join(sorted(union[kind]))}")
    every = set().union(*union.values()) if union else set()
    lines.append(f"- union ({len(every)}): {' '.join(sorted(every))}")
    (out / "NOTES.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"from: {' '.join(MODELS)}")
    parser.add_argument("--out", type=Path, default=HERE, help="default: the folder of this script")
    args = parser.parse_args()
    unknown = [name for name in args.models if name not in MODELS]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}")
    for name in args.models or MODELS:
        generate(name, MODELS[name], args.out)
    write_notes(args.out)


if __name__ == "__main__":
    main()
