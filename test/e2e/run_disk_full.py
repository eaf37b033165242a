#!/usr/bin/env python3
"""Disks that are really full, on small file systems mounted for the purpose: the NVMe tier's file is refused before the first step
with the bytes that all ranks need and those that are free, a disk that fills up in the middle ends the run and names the tier, and a
checkpoint that finds no room leaves the older one to go on from. Needs the right to mount (root, or user namespaces; loop devices
for what needs a real disk); skipped without."""
import contextlib, json, os, pathlib, re, shutil, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import SKIPPED, Case, Suite, same

INSIDE = "ZC_DISK_FULL_MOUNTS"
if INSIDE not in os.environ:  # in a mount namespace of its own, so that nothing stays mounted however this ends
    unshare = ["unshare", "-m" if os.geteuid() == 0 else "-rm"]
    try:
        if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0:
            os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
    except FileNotFoundError:
        pass
    print("nothing may be mounted here")
    sys.exit(SKIPPED)

suite = Suite(__doc__)
GPT2 = suite.models / "gpt2"
RANKS, STEPS = 2, 4
FLAGS = ("--world-size", RANKS, "--zero-stage", 3, "--offload-optimizer", "nvme", "--offload-param", "nvme")
PLAN = suite.compile(GPT2 / "ts17.onnx", suite.dir / "nvme.plan", *FLAGS)
REPORT = json.loads(suite.tool("zero-compile", GPT2 / "ts17.onnx", *FLAGS, "--dry-run", "--json"))
NEEDED = RANKS * REPORT["tiers"]["nvme"]["peak_bytes"]


@contextlib.contextmanager
def mounted(name, *how):
    folder = suite.dir / name
    folder.mkdir()
    subprocess.run(["mount", *map(str, how), folder], check=True, capture_output=True)
    try:
        yield folder
    finally:
        for _ in range(2400):  # the kernel closes what a ring held a moment after the process has ended
            if (done := subprocess.run(["umount", folder], capture_output=True)).returncode == 0:
                break
            time.sleep(0.05)
        done.check_returncode()


def memory(name, size):
    """A file system of `size` bytes that knows fallocate."""
    return mounted(name, "-t", "tmpfs", "-o", f"size={size}", "none")


def disk(name, size, kind="ext4", within=None):
    """One on a loop device, whose image takes bytes only where they are written."""
    image = (within or suite.dir) / f"{name}.img"
    image.touch()
    os.truncate(image, size)
    subprocess.run([f"mkfs.{kind}", "-q", *(["-O", "^has_journal"] if kind == "ext4" else []), image], check=True)
    return mounted(name, "-o", "loop", image)


def run(name, *flags, code=0, nvme=None):
    """-> stderr, without a code the metrics"""
    out = suite.dir / f"out-{name}"
    arguments = (PLAN, "-n", RANKS, "--data", GPT2 / "inputs.safetensors", "--steps", STEPS, "--nvme-dir", nvme or suite.dir)
    text = suite.tool("zero-run", *arguments, "--out", out, *flags, code=code)
    return text if code else [(m["loss"], m["grad_norm"]) for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines())]


EXPECTED = run("expected")


def refused(name, folder):
    """Nothing has begun, and both numbers are said."""
    text = run(name, code=6, nvme=folder)
    found = re.search(r"needs (\d+) bytes in .*no space left on device(?:.|\n)*?(\d+) bytes are free", text)
    if not found or int(found[1]) != NEEDED or not int(found[2]) < NEEDED or "step 1/" in text or (suite.dir / f"out-{name}").exists():
        raise Case(text)
    return f"{found[2]} of {found[1]} bytes free"


def enough_for_one(kind):
    """What suffices for one rank is refused for two, and taken when it suffices for both."""
    with memory(kind, NEEDED * 3 // 4) if kind == "tmpfs" else disk(kind, 2 << 20, kind) as folder:
        if kind != "tmpfs":
            free = os.statvfs(folder).f_bfree * os.statvfs(folder).f_frsize
            (folder / "other").write_bytes(bytes(free - NEEDED * 3 // 4))
        remark = refused(f"one-{kind}", folder)
        if kind == "tmpfs":
            subprocess.run(["mount", "-o", f"remount,size={2 * NEEDED}", folder], check=True)
        else:
            (folder / "other").unlink()
        same("losses", run(f"both-{kind}", nvme=folder), EXPECTED)
        if left := [p for p in folder.iterdir() if p.name != "lost+found"]:
            raise Case(f"{left} stays")
    return remark


def fills_up():
    """A disk that promised more than it has, as thin ones do: some write in the middle finds no room, or is lost by the file system, which had
    taken it already and writes later when others want the machine: then its checksum is another when it is read."""
    with memory("thin", 80 * 1024 + NEEDED // 2) as below, disk("promises", 8 << 20, within=below) as folder:
        try:
            text = run("fills-up", code=6, nvme=folder)
        except Case as other:
            text = str(other)
            if "exit code 9:" not in text:
                raise
        if not re.search(r"nvme tier: (cannot write \d+ bytes at byte \d+ of its file in \"[^\"]*promises\": no space left"
                         r"|the block at byte \d+ of its file in \"[^\"]*promises\" is not what was written there)", text):
            raise Case(text)
        if [p.name for p in folder.iterdir() if p.name != "lost+found"]:
            raise Case("something stays")


def checkpoint():
    """The second one finds no room: the first stays, and the run goes on from it when there is room."""
    out = suite.dir / "out-saved"
    with mounted(out.name, "-t", "tmpfs", "-o", "size=8m", "none"):
        run("saved", "--save-every", 1)
        size = sum(p.stat().st_size for p in (out / "step-1").iterdir())
        shutil.rmtree(out / "final")
        for step in out.glob("step-*"):
            shutil.rmtree(step)
        subprocess.run(["mount", "-o", f"remount,size={size * 3 // 2 + 65536}", out], check=True)
        text = run("saved", "--save-every", 1, "--overwrite", code=6)
        if "no space left" not in text or [p.name for p in out.glob("step-*")] != ["step-1"]:
            raise Case(f"{sorted(p.name for p in out.iterdir())}: {text}")
        suite.tool("zero-run", "checkpoint", "verify", out)
        # Told that it may, the run goes on without: what is full is said each time, and the end is what the run is for.
        text = run("saved", "--save-every", 1, "--resume", "auto", "--ckpt-on-error", "warn", code=6)
        if text.count("is not saved: cannot write") != 3 or [p.name for p in out.glob("step-*")] != ["step-1"]:
            raise Case(f"{sorted(p.name for p in out.iterdir())}: {text}")
        subprocess.run(["mount", "-o", "remount,size=8m", out], check=True)
        same("losses", run("saved", "--resume", "auto"), EXPECTED)
        same("weights", (out / "final/weights.safetensors").read_bytes(), (suite.dir / "out-expected/final/weights.safetensors").read_bytes())


cases = [("enough for one rank, tmpfs", lambda: enough_for_one("tmpfs")), ("checkpoint", checkpoint)]
try:
    with disk("probe", 1 << 20):
        pass
    cases += [("enough for one rank, ext4", lambda: enough_for_one("ext4")),
              ("enough for one rank, no fallocate", lambda: enough_for_one("ext2")), ("fills up", fills_up)]
except (subprocess.CalledProcessError, FileNotFoundError) as error:
    print(f"skipped: no loop devices ({error}): full disks other than tmpfs, disks that fill up")
suite.args.jobs = 1
suite.run(cases)
suite.finish()
