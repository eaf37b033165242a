#!/usr/bin/env python3
"""zero-run's folders: resuming, replacing, checkpoints, what may not be overwritten. Usage: cli_folders.py ZERO_RUN WRITE_PLAN"""
import fcntl, json, os, re, resource, shutil, signal, subprocess, time

from zero_run import ZERO_RUN, ZeroRunTest, main, run


class Folders(ZeroRunTest):
    def test_export(self):
        self.succeeds(self.train())
        final = self.dir / "out" / "final"
        self.assertEqual(run("export", final, "--onnx", self.dir / "new.onnx")[0], 0)
        self.assertEqual(run("export", final, "--safetensors", self.dir / "new.safetensors")[0], 0)
        old, new = (self.dir / "model.onnx").read_bytes(), (self.dir / "new.onnx").read_bytes()
        self.assertEqual((old[:4], old[-4:], len(old)), (new[:4], new[-4:], len(new)))
        self.assertEqual(new[4:-4], (self.dir / "new.safetensors").read_bytes()[-400:])
        self.expect(2, "either --onnx", run("export", final))
        self.assertEqual(run("export", self.dir / "out", "--safetensors", self.dir / "run.safetensors")[0], 0)  # its newest
        self.assertEqual((self.dir / "run.safetensors").read_bytes(), (self.dir / "new.safetensors").read_bytes())
        self.expect(3, "holds no checkpoint", run("export", self.dir, "--onnx", self.dir / "x.onnx"))
        self.assertFalse((self.dir / "x.onnx").exists())
        self.succeeds(self.train(out="other"))
        before = {path: path.read_bytes() for path in (self.dir / "other/final").iterdir()}
        for path in before:
            self.expect(2, "would replace a file of the checkpoint", run("export", final, "--safetensors", path))
        self.assertEqual({path: path.read_bytes() for path in before}, before)
        for name in ("new.onnx", "n" * 250 + ".onnx"):  # of a long name the temporary has but the beginning
            suffix = ".tmp-4194305-0"  # Linux numbers at most 2^22 processes
            killed = self.dir / (name[:255 - len(suffix)] + suffix)
            killed.write_text("half")
            self.assertEqual(run("export", final, "--onnx", self.dir / name)[0], 0)
            self.assertFalse(killed.exists())

    def test_what_is_refused_leaves_no_folder(self):
        for flags in (("--resume", self.dir / "nowhere"), ("--weights", self.dir / "nowhere")):
            self.assertNotEqual(self.train(*flags, out="new")[0], 0)
            self.assertFalse((self.dir / "new").exists(), flags)
        self.assertNotEqual(self.train("--resume", self.dir / "nowhere", out="outer/inner")[0], 0)
        self.assertFalse((self.dir / "outer").exists())
        lock = self.dir / "held" / ".lock"
        lock.parent.mkdir()
        with lock.open("w") as holder:  # another run's
            fcntl.flock(holder, fcntl.LOCK_EX)
            self.expect(2, "another run is writing", self.train(out="held"))
            self.assertTrue(lock.exists())
        (self.dir / "mine").mkdir()
        self.assertNotEqual(self.train("--resume", self.dir / "nowhere", out="mine")[0], 0)
        self.assertTrue((self.dir / "mine").exists())

    def test_killed_anywhere_in_a_save(self):
        """What is killed while it saves continues to the bits of an undisturbed run."""
        self.succeeds(self.train(out="whole", steps=6))
        for site, at, left in (("ckpt.write", "n=2", [2]), ("ckpt.manifest", "n=2", [2]), ("ckpt.rename", "n=2", [2]),
                               ("ckpt.remove", "n=1", [2, 4])):
            flags = ("--save-every", 2, "--keep", 1, "--lr-schedule", "constant", "--quiet")
            killed = self.train(*flags, out=site, steps=6, env={"ZERO_FAULT": f"{site}@rank=0,{at}:crash"})
            self.assertEqual(killed[0], -9, killed)
            found = sorted(int(p.name[5:]) for p in (self.dir / site).glob("step-?"))
            self.assertEqual(found, left, site)
            code, _, err = self.train(*flags, "--resume", "auto", out=site, steps=6)
            self.assertEqual(code, 0, err)
            self.assertEqual((self.dir / site / "final/weights.safetensors").read_bytes(),
                             (self.dir / "whole/final/weights.safetensors").read_bytes(), site)
            self.assertEqual(list((self.dir / site).glob("*.tmp")), [])

    def test_goes_on_where_a_run_ended(self):
        """What ended goes on from its end, with more steps; a later run's checkpoint is newer than that."""
        flags = ("--lr-schedule", "constant", "--resume", "auto")
        self.succeeds(self.train("--lr-schedule", "constant", out="whole", steps=6))
        self.succeeds(self.train("--lr-schedule", "constant", steps=2))
        code, out, err = self.train(*flags, steps=2)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, "continuing after step 2 of .*final")
        self.assertRegex(err, "the run is at step 2 already")
        self.assertEqual([m["step"] for m in self.lines()], [1, 2])
        final = json.loads(out.splitlines()[-1])  # what a sweep would look at
        self.assertEqual((final["step"], final["steps"], final["loss"]), (2, 0, self.lines()[-1]["loss"]))
        crash = {"ZERO_FAULT": "ckpt.write@rank=0,n=2:crash"}  # the save at the end
        self.assertEqual(self.train(*flags, "--save-every", 3, steps=4, env=crash)[0], -9)
        code, _, err = self.train(*flags, steps=6)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, "continuing after step 3 of .*step-3")
        self.assertEqual([m["step"] for m in self.lines()], list(range(1, 7)))
        self.assertEqual((self.dir / "out/final/weights.safetensors").read_bytes(),
                         (self.dir / "whole/final/weights.safetensors").read_bytes())

    def test_goes_on_from_another_folder_and_is_killed_there(self):
        """Its metrics begin after the step of that checkpoint, and stay when it goes on once more."""
        flags = ("--lr-schedule", "constant", "--save-every", 2, "--quiet")
        self.succeeds(self.train(*flags, steps=4))
        crash = {"ZERO_FAULT": "step.begin@rank=0,step=8:crash"}
        self.assertEqual(self.train(*flags, "--resume", self.dir / "out", out="next", steps=9, env=crash)[0], -9)
        before = self.lines("next")
        self.assertEqual([m["step"] for m in before], [5, 6, 7])
        self.succeeds(self.train(*flags, "--resume", "auto", out="next", steps=9))
        self.assertEqual([m["step"] for m in self.lines("next")], [5, 6, 7, 8, 9])
        self.assertEqual(self.lines("next")[:2], before[:2])

    def test_a_full_disk_ends_the_save_and_keeps_what_was_saved(self):
        flags = ("--save-every", 2, "--quiet")
        self.expect(6, "no space left", self.train(*flags, env={"ZERO_FAULT": "ckpt.manifest@n=2:ENOSPC"}))
        self.succeeds(self.train(*flags, "--resume", "auto"))

    def test_every_rank_warns_of_its_part(self):
        """All at once, a line each."""
        self.write_plan(world=8)
        code, _, err = self.train("--save-every", 2, "--ckpt-on-error", "warn", "--quiet", steps=3, env={"ZERO_FAULT": "ckpt.write@step=2:ENOSPC"})
        self.assertEqual(code, 0, err)
        lines = [line for line in err.splitlines() if "bytes of memory" not in line]  # which a sanitizer takes
        self.assertEqual(len(lines), 8, err)
        for line in lines:
            self.assertRegex(line, '^warning: step-2 is not saved: cannot save into ".*step-2.tmp": no space left on device$')

    def test_output_folder(self):
        (self.dir / "file").write_text("x")
        self.expect(6, "folder", self.train(out="file"))
        if os.getuid() != 0:
            locked = self.dir / "locked"
            locked.mkdir(mode=0o500)
            self.expect(6, "locked", self.train(out="locked/out"))
        # A disk that is full from the start: refused before the first step, nothing half-written is left.
        def no_space():
            # Ignored from the start: a sanitizer's runtime writes before main does.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        code, out, err = self.train(out="full", preexec_fn=no_space)
        self.assertEqual(code, 6, err)
        self.assertFalse((self.dir / "full").exists())

    def test_metrics_of_a_part_that_is_left_are_set_aside(self):
        """As its checkpoints are; what a killed run wrote after its last checkpoint comes again."""
        self.succeeds(self.train("--save-every", 2))
        whole = (self.dir / "out/metrics.jsonl").read_bytes()
        self.succeeds(self.train("--save-every", 2, "--resume", self.dir / "out/step-2", "--lr", "0.001"))
        self.assertEqual([m["step"] for m in self.lines()], [1, 2, 3, 4])
        self.assertEqual((self.dir / "out/metrics.jsonl.abandoned").read_bytes(), whole)
        shutil.rmtree(self.dir / "out/final")
        shutil.rmtree(self.dir / "out/step-4")
        self.succeeds(self.train("--resume", "auto", "--lr", "0.001"))
        self.assertEqual(sorted(path.name for path in (self.dir / "out").glob("metrics*")), ["metrics.jsonl", "metrics.jsonl.abandoned"])

    def test_a_run_is_not_written_into_a_checkpoint(self):
        """It would go when the run that the checkpoint is of replaces or removes it."""
        self.succeeds(self.train())
        before = sorted(path.name for path in (self.dir / "out/final").iterdir())
        self.expect(2, '"[^"]*/out/final" is a checkpoint, not the folder of a run', self.train(out="out/final"))
        self.assertEqual(sorted(path.name for path in (self.dir / "out/final").iterdir()), before)

    def test_what_somebody_put_into_a_checkpoint_is_not_removed(self):
        """A checkpoint that is to be replaced or removed, and holds what no run wrote, is set aside."""
        self.succeeds(self.train("--save-every", 2))
        (self.dir / "out/final/model.onnx").write_text("mine")
        (self.dir / "out/step-2/tried").mkdir()
        (self.dir / "out/step-2/tried/notes.txt").write_text("mine")
        before = sorted((self.dir / "out").rglob("*"))
        self.expect(2, 'is called like a checkpoint and holds "(model.onnx|tried)", which no run wrote', self.train("--overwrite"))
        self.assertEqual(sorted((self.dir / "out").rglob("*")), before)
        code, _, err = self.train("--resume", "auto", "--save-every", 6, "--keep", 1, steps=6)
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(path.name for path in (self.dir / "out").iterdir() if path.is_dir()),
                         ["final", "final.abandoned", "step-2.abandoned", "step-6"])
        for name, held in (("final", "model.onnx"), ("step-2", "tried")):
            self.assertIn(f'set aside "{self.dir}/out/{name}.abandoned": it holds "{held}", which no run wrote', err)
        for kept in ("final.abandoned/model.onnx", "step-2.abandoned/tried/notes.txt"):
            self.assertEqual((self.dir / "out" / kept).read_text(), "mine")
        self.expect(2, "step-2.abandoned|final.abandoned", self.train("--overwrite"))

    def test_an_earlier_run_stays_until_the_first_step_is_done(self):
        """What --overwrite would remove is there, byte for byte, where the new run never came so far."""
        self.succeeds(self.train("--save-every", 2, "--trace", "1:2"))
        shutil.copytree(self.dir / "out/step-2", self.dir / "out/best")
        before = {path: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file() and path.name != ".lock"}
        data = (self.dir / "data.safetensors").read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        (self.dir / "nan.safetensors").write_bytes(data[:begin] + b"\xff" * (len(data) - begin))
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))

        good = "data.safetensors"
        for code, says, fault, data, flags, limit in (
                (5, "cannot map", "arena.reserve@rank=1:ENOMEM", good, ("--reserve",), None),
                (3, "no such file", "", good, ("--weights", self.dir / "nowhere"), None),
                (3, "no such file", "", "nowhere", (), None),
                (6, "ulimit -n leaves this process \\d more", "", good, (), few),
                (6, "input/output error", "file.read@rank=1,step=0:EIO", good, (), None),
                (6, "input/output error", "file.read@rank=1,step=1:EIO", good, (), None),
                (1, "step 1 was told to fail", "step.begin@rank=1,step=1:EIO", good, (), None),
                (6, "cannot list folder", "folder.list@step=1:EIO", good, (), None),
                (1, "stopped before the run in its folder was replaced", "step.begin@rank=0,step=1:SIGTERM", good, ("--trace", "1:1"), None),
                (8, r'the loss is not finite at step 1\s.*sample \d+ of "\w+" is not finite at position 0', "", "nan.safetensors", (), None)):
            with self.subTest(says=says, fault=fault):
                self.expect(code, says, run("tiny.plan", "--data", data, "--steps", 4, "--out", "out", "--overwrite", "--quiet", *flags, cwd=self.dir,
                                            env={"ZERO_FAULT": fault}, preexec_fn=limit))
                self.assertEqual({path: path.read_bytes() for path in before if path.exists()}, before)
                self.assertEqual({path for path in (self.dir / "out").rglob("*") if path.is_file()} - before.keys(), {self.dir / "out/.lock"})
        self.succeeds(self.train("--overwrite", "--quiet", steps=3))
        self.assertEqual(sorted(path.name for path in (self.dir / "out").iterdir()), [".lock", "final", "metrics.jsonl", "trace.json"])
        self.assertEqual(len(self.lines()), 3)

    def test_a_removal_that_is_killed(self):
        """Between any two of its steps: what is left of the earlier run goes on, or nothing of it is a checkpoint; the same command works."""
        flags = ("--save-every", 2, "--quiet")
        self.succeeds(self.train(*flags, out="earlier", steps=2))
        for site in ("ckpt.removed", "folder.rename", "file.rename"):
            for n in range(1, 9):
                shutil.rmtree(self.dir / "out", ignore_errors=True)
                shutil.copytree(self.dir / "earlier", self.dir / "out")
                code, _, err = self.train(*flags, "--overwrite", "--no-final", steps=1, env={"ZERO_FAULT": f"{site}@step=1,n={n}:crash"})
                if code == 0:
                    break
                self.assertEqual(code, -signal.SIGKILL, err)
                left = [name for name in ("step-2", "final") if (self.dir / "out" / name).exists()]
                verified = run("checkpoint", "verify", self.dir / "out")
                self.assertEqual(verified[0], 0 if left else 3, (site, n, verified))
                self.expect(2, "holds an earlier run", self.train(*flags))
                self.succeeds(self.train(*flags, "--overwrite", steps=2))
                self.assertEqual(sorted(path.name for path in (self.dir / "out").iterdir() if path.is_dir()), ["final", "step-2"])
                self.assertEqual(len(self.lines()), 2)
            self.assertGreater(n, 1, site)

    def test_what_cannot_be_removed_stays_as_it_was(self):
        """What another user wrote, say; of a killed removal it keeps nobody from going on."""
        self.succeeds(self.train("--save-every", 2))
        before = {path: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file() and path.name != ".lock"}
        self.expect(6, "cannot remove", self.train("--overwrite", "--quiet", env={"ZERO_FAULT": "ckpt.removed@n=2:EACCES"}))
        self.assertEqual({path: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file() and path.name != ".lock"}, before)
        (self.dir / "out/step-2").rename(self.dir / "out/step-2.removed")
        code, _, err = self.train("--resume", "auto", "--no-final", steps=8, env={"ZERO_FAULT": "ckpt.removed@n=3:EACCES"})
        self.assertEqual(code, 0, err)
        self.assertIn("warning: cannot remove", err)

    def test_checkpoint_verify(self):
        self.succeeds(self.train("--save-every", 2))
        code, out, err = run("checkpoint", "verify", self.dir / "out")
        self.assertEqual((code, err, len(out.splitlines())), (0, "", 3))
        self.assertIn("step-2: whole, step 2", out)
        file = self.dir / "out/step-4/moment1.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        code, out, err = run("checkpoint", "verify", self.dir / "out")
        self.assertEqual((code, len(out.splitlines())), (9, 2))
        self.assertRegex(err, 'moment1.safetensors(.|\n)*|tensor "w"')
        self.expect(9, 'of tensor "w"', run("checkpoint", "verify", self.dir / "out/step-4"))
        self.expect(3, "holds no checkpoint|cannot open", run("checkpoint", "verify", self.dir / "none"))
        self.expect(2, "required", run("checkpoint"))

    def test_looked_at_while_a_run_removes_and_replaces(self):
        """What is gone meanwhile was no damaged one: others are looked at."""
        self.succeeds(self.train("--save-every", 1, steps=2, out="earlier"))
        for command, says in ((("checkpoint", "verify", "out"), "step-1|step-2"), (("export", "out", "--safetensors", "x"), "^$")):
            shutil.copytree(self.dir / "earlier", self.dir / "out")
            (self.dir / "out/final").rename(self.dir / "away")
            process = subprocess.Popen([ZERO_RUN, *command], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, "ZERO_FAULT": "file.open@n=2:delay=1s"})
            time.sleep(0.5)
            shutil.rmtree(self.dir / "out/step-2")
            out, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 0, err)
            self.assertNotRegex(err, "passed over|error")
            self.assertRegex(out, says)
            shutil.rmtree(self.dir / "out")
            shutil.rmtree(self.dir / "away")

    def test_ordinary_mistakes_with_folders(self):
        self.succeeds(self.train("--save-every", 2))
        before = {path: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file()}
        final = self.dir / "out/final"
        # A part of a checkpoint instead of its folder, or what is none.
        for part in ("manifest.json", "weights.safetensors"):
            self.expect(3, f"is a file, no folder of a checkpoint(.|\n)*help: give \".*/out/final\"", self.train("--resume", final / part, out="next"))
            self.expect(3, "is a file, no folder", run("checkpoint", "verify", final / part))
            self.expect(3, "is a file, no folder", run("export", final / part, "--safetensors", self.dir / "x"))
        self.expect(3, "is a file, no folder", self.train("--resume", self.dir / "tiny.plan", out="next"))
        self.expect(3, "no such file", self.train("--resume", self.dir / "nowhere", out="next"))
        # What the optimizer remembers has the weights' names and shapes.
        self.expect(10, 'holds no weights but the "moment1" of a checkpoint(.|\n)*help: give its folder, ".*/out/final"',
                    self.train("--weights", final / "moment1.safetensors", out="next"))
        for other in (self.dir / "model.onnx", self.dir / "out/metrics.jsonl"):
            self.expect(3, "not a valid safetensors file(.|\n)*help: weights are read from", self.train("--weights", other, out="next"))
        # A shell's variable that is not set is not a flag that was not given.
        flags = {"--data": self.dir / "data.safetensors", "--out": self.dir / "next", "--steps": 1}
        for flag in ("--resume", "--weights", "--out", "--data"):
            self.expect(2, f'the value of "{flag}" is empty',
                        run(self.dir / "tiny.plan", *(word for pair in {**flags, flag: ""}.items() for word in pair)))
        self.assertFalse((self.dir / "next/metrics.jsonl").exists() and (self.dir / "next/metrics.jsonl").stat().st_size)
        (self.dir / "dangling").symlink_to("nowhere")
        self.expect(6, "it is a symbolic link to what is not there", self.train(out="dangling"))
        (self.dir / "file").write_bytes(b"mine")
        self.expect(6, "cannot make folder .*: not a directory", self.train(out="file"))
        # Links, trailing slashes, spaces and other letters are as good as any.
        (self.dir / "real").mkdir()
        (self.dir / "link").symlink_to("real")
        self.succeeds(self.train(out="link", steps=2))
        self.assertTrue((self.dir / "real/final/manifest.json").exists())
        odd = "o u t/\u00fc \u4e16"
        for flag, value in (("--resume", f"{self.dir}/out/"), ("--resume", f"{final}/"), ("--weights", f"{self.dir}/out/"), ("--weights", f"{final}/")):
            code, _, err = self.train(flag, value, "--overwrite" if flag == "--weights" else "--quiet", out=f"{odd}{flag}{len(value)}", steps=6)
            self.assertEqual(code, 0, err)
        self.assertEqual(run("export", "out", "--safetensors", "x y.safetensors", cwd=self.dir)[0], 0)
        self.assertEqual({path: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file()}, before)

    def test_names_of_a_run_that_are_no_files(self):
        """Told before anything is removed or computed; what is only beside the result is a warning. A FIFO keeps nobody."""
        self.succeeds(self.train("--save-every", 2))
        out, checkpoints = self.dir / "out", ["final", "step-2", "step-4"]
        for make, says in ((os.mkdir, "is a directory"), (os.mkfifo, "is not a regular file")):
            (out / "metrics.jsonl").unlink()
            make(out / "metrics.jsonl")
            for flags in (("--overwrite",), ("--resume", "auto"), ("--resume", out / "step-2")):
                self.expect(6, f'out/metrics.jsonl" {says}', self.train(*flags, steps=6))
                self.assertEqual(sorted(path.name for path in out.iterdir() if path.name[0] in "fs"), checkpoints)
            (out / "metrics.jsonl").rmdir() if make == os.mkdir else (out / "metrics.jsonl").unlink()
            (out / "metrics.jsonl").touch()
            evaluated = self.dir / f"eval-{make.__name__}"
            evaluated.mkdir()
            make(evaluated / "eval.json")
            result = run("eval", self.dir / "eval.plan", "--data", self.dir / "data.safetensors", "--out", evaluated)
            self.expect(6, f'eval.json" {says}', result)
            self.assertNotIn("evaluating", result[2])
        os.mkfifo(out / "trace.json")
        code, _, err = self.train("--trace", "1:1", "--overwrite", "--quiet")
        self.assertEqual((code, len(re.findall("is missing: .* is not a regular file", err))), (0, 1), err)
        (self.dir / "locked/.lock").mkdir(parents=True)
        self.expect(6, 'cannot open ".*locked/.lock": is a directory', self.train(out="locked"))
        (self.dir / "linked").mkdir()
        (self.dir / "linked/final").symlink_to("nowhere")
        self.expect(3, "no such file(.|\n)*a symbolic link to what is not there", self.train("--resume", "auto", out="linked"))

    def test_names_as_long_as_can_be(self):
        self.succeeds(self.train())
        for name in ("x" * 255, "\u4e16" * 85):
            self.assertEqual(run("export", self.dir / "out", "--safetensors", self.dir / name)[0], 0)
            self.succeeds(self.train("--resume", "auto", "--quiet", out=name[:len(name) // 2]))
        self.expect(6, "file name too long", run("export", self.dir / "out", "--safetensors", self.dir / ("x" * 256)))

    def test_a_working_folder_that_was_removed(self):
        gone = self.dir / "gone"
        gone.mkdir()
        done = subprocess.run(f"cd {gone} && rmdir {gone} && exec {ZERO_RUN} {self.dir}/tiny.plan --data {self.dir}/data.safetensors --steps 1",
                              shell=True, stderr=subprocess.PIPE, text=True, timeout=600)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn('cannot make folder "runs/', done.stderr)

    def test_an_output_is_no_input(self):
        self.succeeds(self.train())
        weights = self.dir / "out/final/weights.safetensors"
        before = weights.read_bytes()
        self.expect(2, "would overwrite", run("export", self.dir / "out", "--safetensors", weights))
        os.link(weights, self.dir / "linked")
        self.expect(2, "would overwrite", run("export", self.dir / "out", "--safetensors", self.dir / "linked"))
        self.assertEqual(weights.read_bytes(), before)
        # Before anything is touched: not the model that the plan names, nor another checkpoint's folder, nor what a run reads.
        model = (self.dir / "model.onnx").read_bytes()
        self.expect(2, "would overwrite the input model", run("export", self.dir / "out", "--onnx", self.dir / "model.onnx"))
        self.assertEqual((self.dir / "model.onnx").read_bytes(), model)
        metrics = self.dir / "out/metrics.jsonl"
        before = {path: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file()}
        self.expect(2, "metrics.jsonl\" would overwrite the input --tokens", run(self.dir / "tiny.plan", "--tokens", metrics, "--byte-level",
                    "--overwrite", "--steps", 1, "--out", self.dir / "out"))
        self.expect(2, 'out/final" would overwrite the input --weights', self.train("--weights", self.dir / "out/final", "--overwrite"))
        self.expect(2, 'out/final" would overwrite the input --weights', self.train("--weights", self.dir / "out", "--overwrite", out="./out/../out"))
        self.assertEqual({path: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file()}, before)
        for name in ("final.abandoned", "best.abandoned-2", "step-4.abandoned"):
            shutil.copytree(self.dir / "out/final", self.dir / "out" / name)
            self.expect(2, f'out/{name}" would overwrite the input --weights', self.train("--weights", self.dir / "out" / name, "--overwrite"))
            self.assertTrue((self.dir / "out" / name / "weights.safetensors").exists())
        self.succeeds(self.train("--weights", self.dir / "out/final", out="next"))

    def test_what_a_run_replaces_or_sweeps_is_no_input(self):
        """All that it writes under a name of its own, what it sweeps of another run's remains, and the folder in a file's place."""
        tokens, data, out = bytes(range(4)) * 64, (self.dir / "data.safetensors").read_bytes(), self.dir / "mine"
        files = {name: tokens for name in ("metrics.jsonl", "trace.json", "trace-1.json", "profile.html", "flight-recorder.json", "crash-rank-0.txt", ".lock", "x.tmp-4194305-2")}
        files |= {f"{name}/d.safetensors": data for name in ("step-7.tmp", "step-7.removed", "final.old", "best.tmp")}
        for name, content in files.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(content)
            flags = ("--data", out / name) if "/" in name else ("--tokens", out / name, "--byte-level")
            self.expect(2, "would overwrite the input", run(self.dir / "tiny.plan", *flags, "--steps", 1, "--out", out, "--profile", "1:1"))
            self.assertEqual((out / name).read_bytes(), content)
        for name in ("tiny.plan", "data.safetensors"):
            before = (self.dir / name).read_bytes()
            self.expect(2, "would overwrite the input", self.train(out=name))
            self.assertEqual((self.dir / name).read_bytes(), before)
        # What only lies beside is nobody's business.
        for name in ("step-one.safetensors", "step-one.tmp/d.safetensors", "crash-rank-none.safetensors"):
            (self.dir / "beside" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.dir / "beside" / name).write_bytes(data)
            code, _, err = run(self.dir / "tiny.plan", "--data", self.dir / "beside" / name, "--steps", 1, "--out", self.dir / "beside", "--overwrite")
            self.assertEqual(code, 0, err)
            self.assertTrue((self.dir / "beside" / name).exists())

    def test_an_evaluation_overwrites_nothing_it_reads(self):
        """Refused by the file, whatever it is called; outputs that are one file as well."""
        data = self.dir / "data.safetensors"
        before = data.read_bytes()
        (self.dir / "link").symlink_to("data.safetensors")
        os.link(data, self.dir / "linked")
        for name in ("data.safetensors", "link", "linked", "../" + self.dir.name + "/data.safetensors"):
            self.expect(2, "would overwrite the input --data", run("eval", self.dir / "tiny.plan", "--data", data, "--outputs", self.dir / name))
        self.expect(2, "would overwrite the input .*tiny.plan", run("eval", self.dir / "tiny.plan", "--data", data, "--outputs", self.dir / "tiny.plan"))
        self.expect(2, "are one file", run("eval", self.dir / "tiny.plan", "--data", data, "--outputs", self.dir / "new/eval.json", "--out",
                    self.dir / "new"))
        self.assertEqual(data.read_bytes(), before)
        self.assertFalse((self.dir / "new").exists())

    def test_a_folder_that_is_removed_while_a_run_goes_on(self):
        """What the run has in memory is saved there again, with the metrics, and the run ends; where another run is by now, nothing is
        touched."""
        flags = ("--lr-schedule", "constant", "--save-every", 4)
        self.succeeds(self.train("--lr-schedule", "constant", out="whole", steps=8))
        for moved in (False, True):
            process = self.start(*flags, steps=8, fault="step.begin@step=3:delay=5s")
            self.wait_for(self.has_steps(2))
            self.assertIsNone(process.poll())
            (self.dir / "out").rename(self.dir / f"moved{moved}") if moved else shutil.rmtree(self.dir / "out")
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 6, err)
            self.assertRegex(err, 'out" was removed while the run went on: the state after step 4(.|\n)*--resume auto')
            self.assertEqual(sorted(path.name for path in (self.dir / "out").iterdir()), [".lock", "metrics.jsonl", "step-4"])
            self.assertEqual([m["step"] for m in self.lines()], [1, 2, 3, 4])
            self.assertEqual(run("checkpoint", "verify", self.dir / "out")[0], 0)
            code, _, err = self.train(*flags, "--resume", "auto", steps=8)
            self.assertEqual(code, 0, err)
            self.assertEqual((self.dir / "out/final/weights.safetensors").read_bytes(), (self.dir / "whole/final/weights.safetensors").read_bytes())
            shutil.rmtree(self.dir / "out")
        process = self.start(*flags, steps=8, fault="step.begin@step=3:delay=5s")
        self.wait_for(self.has_steps(2))
        shutil.rmtree(self.dir / "out")
        (self.dir / "out").mkdir()
        with open(self.dir / "out/.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 6, err)
        self.assertRegex(err, "another run is writing into(.|\n)*was removed while the run went on")
        self.assertEqual([path.name for path in (self.dir / "out").iterdir()], [".lock"])
        shutil.rmtree(self.dir / "out")

    def test_a_folder_that_another_run_has_had_meanwhile(self):
        """One that began and ended there: at a save, and at an end without one, it stays what it is."""
        for at_end, flags in ((False, ("--save-every", 4)), (True, ("--no-final", "--trace", "5:6"))):
            process = self.start(*flags, steps=8, fault="step.begin@step=3:delay=5s")
            self.wait_for(self.has_steps(2))
            shutil.rmtree(self.dir / "out")
            self.succeeds(self.train(steps=3))
            there = {path.name: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file()}
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 0 if at_end else 6, err)
            self.assertRegex(err, "was removed while the run went on" if at_end else "holds an earlier run(.|\n)*was removed while the run went on")
            left = {path.name: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file()}
            there.pop(".lock"), left.pop(".lock")
            self.assertEqual(left, there)
            shutil.rmtree(self.dir / "out")

    def test_metrics_that_are_removed_while_a_run_goes_on(self):
        process = self.start(steps=6, fault="step.begin@step=3:delay=2s")
        self.wait_for(self.has_steps(2))
        (self.dir / "out/metrics.jsonl").unlink()
        _, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("warning: metrics.jsonl was removed while the run went on: it is there again", err)
        self.assertEqual([m["step"] for m in self.lines()], [1, 2, 3, 4, 5, 6])

    def test_one_run_per_folder(self):
        process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps",
                                    "100000000", "--out", self.dir / "out", "--quiet"], stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        deadline = time.time() + 300
        while not (self.dir / "out" / "metrics.jsonl").exists() and time.time() < deadline:
            time.sleep(0.02)
        metrics = self.dir / "out/metrics.jsonl"
        before = metrics.read_text()
        self.expect(2, "another run is writing into .*: process %d on ." % process.pid, self.train())
        self.wait_for(lambda: len(metrics.read_text()) > len(before))
        self.assertTrue(metrics.read_text().startswith(before), "the one that is there goes on")
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
