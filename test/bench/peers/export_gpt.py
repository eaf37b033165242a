"""Exports the peers' GPT with its loss to ONNX, both ways, and writes the data and the losses PyTorch gives.
usage: export_gpt.py OUT [g5m|g124m ...] [--batch 4 2] [--steps 5]
OUT/MODEL-bB-ts17.onnx       TorchScript exporter, opset 17, TRAINING, no constant folding
OUT/MODEL-bB-dynamo18.onnx   dynamo exporter, opset 18, optimize=False
(g124m: weights beside it in NAME.onnx.data);  OUT/MODEL.npz  ids, labels [4, T], the peers' global batch;  OUT/MODEL.losses.json  losses of AdamW(1e-4) on all 4 rows, eager,
which W ranks with 4/W rows each must give on average. The check runs each file on the first B rows."""

import argparse, collections, json, os, time, warnings
import numpy as np, onnx, torch
import common, gpt

warnings.simplefilter("ignore")
a = argparse.ArgumentParser(usage=__doc__)
a.add_argument("out")
a.add_argument("models", nargs="*", default=["g5m"])
a.add_argument("--batch", type=int, nargs="+", default=[4, 2])
a.add_argument("--steps", type=int, default=5)
a = a.parse_args()
os.makedirs(a.out, exist_ok=True)


def model(name):
    L, d, h, V, T = common.MODELS[name]
    torch.manual_seed(0)
    return gpt.GPT(L, d, h, V, T).train()


for name in a.models:
    V, T = common.MODELS[name][3:]
    ids, labels = common.data(V, 4, T)
    np.savez(os.path.join(a.out, name + ".npz"), ids=ids.numpy(), labels=labels.numpy())
    for B in a.batch:
        i, t = ids[:B].contiguous(), labels[:B].contiguous()
        stem = os.path.join(a.out, f"{name}-b{B}")
        want = model(name)(i, t).item()
        for way in ("ts17", "dynamo18"):
            path, m = f"{stem}-{way}.onnx", model(name)
            for p in (path, path + ".data"):
                if os.path.exists(p):
                    os.remove(p)
            t0 = time.perf_counter()
            try:
                names = dict(input_names=["ids", "labels"], output_names=["loss"])
                if way == "ts17":
                    torch.onnx.export(
                        m,
                        (i, t),
                        path,
                        dynamo=False,
                        opset_version=17,
                        training=torch.onnx.TrainingMode.TRAINING,
                        do_constant_folding=False,
                        **names,
                    )
                else:
                    torch.onnx.export(
                        m,
                        (i, t),
                        path,
                        dynamo=True,
                        opset_version=18,
                        optimize=False,
                        external_data=name != "g5m",
                        verbose=False,
                        **names,
                    )
                took = time.perf_counter() - t0
                x = onnx.load(path)
                if way == "ts17" and name != "g5m":
                    os.remove(path)
                    onnx.save_model(
                        x,
                        path,
                        save_as_external_data=True,
                        all_tensors_to_one_file=True,
                        location=os.path.basename(path) + ".data",
                        size_threshold=1024,
                    )
                    x = onnx.load(path)
                onnx.checker.check_model(path, full_check=True)
                import onnxruntime as ort

                so = ort.SessionOptions()
                so.log_severity_level = 3
                got = float(
                    ort.InferenceSession(path, so, providers=["CPUExecutionProvider"]).run(
                        ["loss"], {"ids": i.numpy(), "labels": t.numpy()}
                    )[0]
                )
                ops = collections.Counter(n.op_type for n in x.graph.node)
                big = sum(int(np.prod(w.dims)) for w in x.graph.initializer)
                common.emit(
                    bench="export",
                    model=name,
                    B=B,
                    way=way,
                    s=round(took, 2),
                    nodes=len(x.graph.node),
                    functions=len(x.functions),
                    initializers=len(x.graph.initializer),
                    elements=big,
                    opsets={o.domain or "ai.onnx": o.version for o in x.opset_import},
                    ops=dict(sorted(ops.items())),
                    inputs=[v.name for v in x.graph.input],
                    outputs=[v.name for v in x.graph.output],
                    bytes=sum(os.path.getsize(p) for p in (path, path + ".data") if os.path.exists(p)),
                    torch_loss=round(want, 6),
                    ort_loss=round(got, 6),
                )
            except Exception as e:
                common.emit(bench="export", model=name, B=B, way=way, failed=f"{type(e).__name__}: {e}"[:800])
    if a.steps:
        m = model(name)
        opt = torch.optim.AdamW(m.parameters(), lr=1e-4)
        losses = []
        for _ in range(a.steps):
            loss = m(ids, labels)
            loss.backward()
            opt.step()
            opt.zero_grad()
            losses.append(loss.item())
        with open(os.path.join(a.out, name + ".losses.json"), "w") as f:
            json.dump(
                {
                    "optimizer": "AdamW",
                    "lr": 1e-4,
                    "betas": [0.9, 0.999],
                    "eps": 1e-8,
                    "weight_decay": 0.01,
                    "batch": 4,
                    "losses": losses,
                },
                f,
            )
