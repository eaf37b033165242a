#!/usr/bin/env python3
"""zero-run's command line: exit codes, messages, outputs. Usage: cli.py ZERO_RUN WRITE_PLAN"""
import json, os, pathlib, re, resource, signal, struct, subprocess, time, unittest, zipfile

from zero_run import ZERO_RUN, ZeroRunTest, main, run


class CommandLine(ZeroRunTest):
    NO_LEAKS = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}

    def test_trains_and_reports(self):
        code, out, err = self.train("-n", 2, "--threads", 1)
        self.assertEqual(code, 0, err)
        final = json.loads(out.splitlines()[-1])
        metrics = self.lines()
        self.assertEqual([m["step"] for m in metrics], [1, 2, 3, 4])
        self.assertEqual(final["loss"], metrics[-1]["loss"])
        self.assertEqual(final["steps"], 4)
        self.assertEqual(final["steady_allocations"], 0)
        self.assertEqual(final["traffic"]["gather"], 4 * 128 * 4)
        device = final["peak_bytes"]["device"]
        self.assertGreater(device["measured"], 0)
        self.assertLess(device["measured"], device["planned"] + 4096 * 2)
        self.assertIn("step 4/4", err)
        self.assertNotIn("\x1b", err, "no bar without a terminal")

    def test_quiet_and_json_log(self):
        code, out, err = self.train("--quiet")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(len(out.splitlines()), 1)
        code, out, err = self.train("--log-format", "json", "--log-every", 2, out="json")
        self.assertEqual([json.loads(line)["step"] for line in out.splitlines()[:-1]], [2, 4])

    def test_schedule_and_epochs(self):
        code, _, err = run(self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--epochs", 2, "--out",
                           self.dir / "out", "--lr", "0.5", "--lr-schedule", "linear", "--warmup", 2)
        self.assertEqual(code, 0, err)
        metrics = self.lines()
        self.assertEqual(len(metrics), 13)  # 2 x 13 samples, 2 per step
        self.assertEqual([m["lr"] for m in metrics[:3]], [0.25, 0.5, 0.5])
        self.assertLess(metrics[-1]["lr"], 0.05)

    def test_steps_and_epochs_what_is_reached_first(self):
        for steps, epochs, expected in ((3, 2, 3), (30, 2, 13), (30, 0.5, 4),  # 13 samples, 2 per step
                                         (60, 54 / 13, 27)):  # times 13 is 54 and a rounding
            out = f"of-{steps}-{epochs}"
            code, _, err = self.train("--epochs", epochs, steps=steps, out=out)
            self.assertEqual((code, len(self.lines(out))), (0, expected), err)

    def test_help(self):
        code, out, _ = run("--help")
        self.assertEqual(code, 0)
        self.assertLess(len(out.splitlines()), 30)
        self.assertIn("zero-run gpt2.plan", out.splitlines()[2])
        code, out, _ = run("--help-all")
        self.assertEqual(code, 0)
        for flag in ("--nproc-per-node", "--lr-schedule", "--resume", "--trace", "--nvme-dir", "--keep", "Data"):
            self.assertIn(flag, out)
        self.assertEqual(run()[0], 0)
        self.assertRegex(run("--version")[1], r"zero-run \d")

    def test_help_of_a_command(self):
        """Its own, behind a line to begin with, whatever else it would need."""
        for command, flag in (("inspect", "--kernels"), ("eval", "--outputs"), ("export", "--safetensors"), ("checkpoint", "verify"),
                              ("bench-machine", "--nvme-dir"), ("bench-io", "--size"), ("doctor", "--help"), ("slurm-template", "--help")):
            for asked in ("--help", "-h", "--help-all"):
                code, out, err = run(command, asked)
                self.assertEqual((code, err), (0, ""), command)
                self.assertTrue(out.startswith(f"  zero-run {command}"), out)
                self.assertIn(f"Usage: zero-run {command}", out)
                self.assertIn(flag, out)
                self.assertNotIn("--early-stop", out)
        # What is wrong with a command's flags is told with the help that has them.
        self.expect(2, "see zero-run export --help", run("export", "out", "--onnx"))
        self.expect(2, "see zero-run eval --help", run("eval", "--threads", "none"))
        self.expect(2, "see zero-run --help", self.train("--threads", "none"))

    def test_usage(self):
        self.expect(2, 'did you mean "--steps"', self.train("--stepz", "3"))
        self.expect(2, "unknown flag", self.train("--zzzzzzzzzzzz"))
        self.expect(2, 'it is called "--steps N" here', self.train("--max_steps", "3"))
        self.expect(2, 'it is zero-compile\'s to say: "--precision bf16"', self.train("--bf16"))
        self.expect(2, "unexpected argument", self.train("another"))
        self.expect(2, '"--lr" is given 3 times', self.train("--lr", 1, "--lr", 1, "--lr", 2))
        self.expect(2, '"--lr" lacks its value', self.train("--lr"))
        self.expect(2, "nproc-per-node", self.train("-n", "0"))
        self.expect(2, "nproc-per-node", self.train("-n", "two"))
        self.expect(2, '--lr: "1e-3x" is not a number from 0 to 1e\\+09\n', self.train("--lr", "1e-3x"))
        self.expect(2, '--keep: "1.5" is not a whole number from 1 to', self.train("--keep", "1.5"))
        self.expect(2, '--seed: "-1" is not a whole number from 0', self.train("--seed", "-1"))
        self.expect(2, 'did you mean "--data"', self.train("--dtaa", "x"))
        self.expect(2, "needs data", run(self.dir / "tiny.plan"))
        self.expect(2, "exclude", self.train("--tokens", "x"))
        self.expect(2, "no plan", run("--steps", 3))
        self.expect(2, "is none of constant, linear", self.train("--lr-schedule", "stairs"))
        self.expect(2, "FROM:TO", self.train("--trace", "3:1"))

    def test_words_that_are_none(self):
        self.expect(2, 'there is no command "inspct"(.|\n)*did you mean "zero-run inspect"', run("inspct", self.dir / "tiny.plan"))
        self.expect(2, 'did you mean "zero-run export"', run("exprot", self.dir / "out", "--onnx", "x.onnx"))
        self.expect(2, '"gpu" is not one of cpu, cuda, cuda-sync, fake, sync; did you mean "cpu"', self.train("--device", "gpu"))
        self.expect(2, '"verfy" is not one of verify; did you mean "verify"', run("checkpoint", "verfy", self.dir))
        self.expect(2, '"jsn" is not one of text, json; did you mean "json"', self.train("--log-format", "jsn"))
        self.expect(2, 'there is no failpoint "stp.begin"(.|\n)*did you mean "step.begin"', self.train(env={"ZERO_FAULT": "stp.begin:EIO"}))
        (self.dir / "inspct").write_bytes((self.dir / "tiny.plan").read_bytes())  # a file of that name is a plan
        code, _, err = run("inspct", "--data", self.dir / "data.safetensors", "--steps", 1, "--out", self.dir / "of", cwd=self.dir)
        self.assertEqual(code, 0, err)

    def test_after_two_dashes_nothing_is_a_flag(self):
        (self.dir / "--odd.plan").write_bytes((self.dir / "tiny.plan").read_bytes())
        data = ("--data", self.dir / "data.safetensors", "--steps", 1)
        code, _, err = run(*data, "--out", self.dir / "of", "--", "--odd.plan", cwd=self.dir)
        self.assertEqual(code, 0, err)
        self.assertEqual(run("inspect", "--", "--odd.plan", cwd=self.dir)[0], 0)
        self.expect(2, 'unexpected argument "--data"', run(self.dir / "tiny.plan", "--", *data))
        self.expect(2, "no plan is given", run(*data, "--"))

    def test_flags_that_would_count_for_nothing(self):
        self.expect(2, '"--byte-level" is for --tokens', self.train("--byte-level"))
        self.expect(2, '"--shift-labels" is for --tokens', self.train("--shift-labels"))
        self.succeeds(self.train("--save-every", 1, steps=2))
        for weights in ("none", self.dir / "out"):
            self.expect(2, '"--weights" is what a run begins with', self.train("--resume", self.dir / "out/step-1", "--weights", weights, out="other"))
        for flag, value in (("--threads", 2), ("--device", "fake"), ("--products", "none")):
            self.expect(2, f'"{flag}" is of --kernels', run("inspect", self.dir / "tiny.plan", flag, value))
        code, _, err = self.train("--resume", "auto", "--weights", self.dir / "out", out="other")  # begins with them, as nothing is there
        self.assertEqual(code, 0, err)

    def test_inspect_knows_every_device(self):
        texts = {device: run("inspect", self.dir / "tiny.plan", "--kernels", "--device", device)[:2] for device in ("cpu", "fake", "sync", "cuda", "cuda-sync")}
        self.assertEqual({texts[device] for device in ("fake", "sync")}, {texts["cpu"]})
        self.assertEqual(texts["cuda-sync"], texts["cuda"])
        self.assertNotEqual(texts["cuda"], texts["cpu"])

    @unittest.skipIf("TSAN_OPTIONS" in os.environ, "loops that are watched take a minute to measure")
    def test_bench_machine_without_plans(self):
        """Measures the machine, without a disk and with one; what is of the other of its two jobs is refused."""
        names = {"flops_per_second", "half_flops_per_second", "memory_bandwidth", "comm_bandwidth", "h2d_bandwidth", "d2h_bandwidth", "step_overhead"}
        code, out, err = run("bench-machine")
        self.assertEqual(code, 0, err)
        self.assertEqual(set(json.loads(out)), names)
        self.assertNotIn("nvme", err)
        machine = self.dir / "machine.json"
        self.assertEqual(run("bench-machine", "-o", machine, "--nvme-dir", self.dir, "--size", "1MB")[:2], (0, ""))
        self.assertEqual(set(json.loads(machine.read_text())), names | {"nvme_read_bandwidth", "nvme_write_bandwidth"})
        self.expect(2, '"--rounds" is of products', run("bench-machine", "--rounds", 3))
        self.expect(2, '"--nvme-dir" is of the machine\'s rates', run("bench-machine", self.dir / "tiny.plan", "--nvme-dir", self.dir))
        self.expect(2, '"--size" is of --nvme-dir', run("bench-machine", "--size", "1MB"))

    def test_what_is_measured_has_a_place(self):
        """That the file cannot be written is said before anything is measured, which would be lost."""
        for words in (("bench-machine",), ("bench-io", self.dir, "--size", "1MB"), ("bench-machine", "--shape", "f32:nn:512x512x512")):
            for output, says in ((self.dir / "none" / "file", "cannot create"), (self.dir, "is a directory")):
                result = run(*words, "-o", output)
                self.expect(3 if "--shape" in words and output == self.dir else 6, says, result)  # a table is read first
                self.assertNotIn("F/s", result[2])
        self.assertEqual(run("bench-machine", "--shape", "f32:nn:512x512x512", "--rounds", 1, "-o", self.dir / "table.json")[0], 0)

    def test_no_core(self):
        """The limit under which the kernel writes no core and starts nobody who would."""
        process = self.start("--no-core")
        self.wait_for(self.has_steps(1))
        limits = pathlib.Path(f"/proc/{process.pid}/limits").read_text()
        process.kill()
        process.wait()
        most = "1" if resource.getrlimit(resource.RLIMIT_CORE)[1] else "[01]"  # of nothing not everybody may make something
        self.assertRegex(limits, f"Max core file size +{most} +{most} ")

    def test_files_in_each_others_place(self):
        plan, data = self.dir / "tiny.plan", self.dir / "data.safetensors"
        (self.dir / "t.npy").write_bytes(b"\x93NUMPY\x01\x00" + bytes(120))
        with zipfile.ZipFile(self.dir / "model.pt", "w") as made:
            made.writestr("data.pkl", "")
        (self.dir / "real.onnx").write_bytes(b"\x08\x08\x12\x07pytorch")
        self.expect(10, "is a safetensors file, not a plan(.|\n)*--data", run(data, "--data", plan))
        self.expect(10, "is an ONNX model, not a plan(.|\n)*help: zero-compile", run(self.dir / "real.onnx", "--data", data))
        self.expect(10, "is a zip archive, as torch.save(.|\n)*zero export", run(self.dir / "model.pt", "--data", data))
        self.expect(10, "is a safetensors file, not a plan", run("inspect", data))
        self.expect(3, "is a plan, not data", run(plan, "--data", plan))
        self.expect(3, "folder, with an INPUT.npy", run(plan, "--data", self.dir / "t.npy"))
        # --tokens takes what follows, but a plan is a plan.
        self.expect(10, 'tokens cannot fill graph input "x"', run("--tokens", self.dir / "t.npy", plan, "--steps", 1))
        self.expect(2, 'no plan is given(.|\n)*--tokens took', run("--tokens", self.dir / "t.npy", data))
        self.expect(2, "--token-type", run(plan, "--tokens", data, "--token-type", "uint8"))
        self.expect(2, "exclude each other", run(plan, "--tokens", data, "--token-type", "uint16", "--byte-level"))

    def test_says_one_as_people_do(self):
        code, _, err = self.train("--threads", 1, steps=1)
        self.assertEqual(code, 0, err)
        self.assertIn("training 1 step of 2 samples on 2 ranks x 1 thread into", err)

    def test_fewer_samples_than_a_step(self):
        self.write_plan(world=8, accumulation=4)
        code, _, err = self.train("--threads", 1, steps=1)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"(?m)^warning: the data have \d+ samples but a step takes 32: samples repeat within a step")

    def test_data_that_are_no_numbers(self):
        """Told where; no flag about the update helps. In the first step weights may be at fault as well."""
        path = self.dir / "data.safetensors"
        def without_numbers(whole):
            begin = 8 + struct.unpack("<Q", whole[:8])[0]
            return whole[:begin] + struct.pack("<f", float("nan")) * ((len(whole) - begin) // 4)

        whole = path.read_bytes()
        self.succeeds(self.train("--quiet", steps=1, out="good"))
        path.write_bytes(without_numbers(whole))
        code, _, err = self.train("--quiet")
        self.assertEqual(code, 8, err)
        self.assertRegex(err, 'at step 1\n.*sample 0 of "x" is not finite at position 0 .*\n.*mend the data')
        path.write_bytes(whole)
        weights = (self.dir / "good/final/weights.safetensors").read_bytes()
        (self.dir / "nan.safetensors").write_bytes(without_numbers(weights))
        code, _, err = self.train("--quiet", "--weights", self.dir / "nan.safetensors", "--overwrite")
        self.assertEqual(code, 8, err)
        self.assertRegex(err, "at step 1\n.*look at the data and the weights, which no update has changed")

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU")
    def test_no_gpu(self):
        for device in ("cuda", "cuda-sync"):
            self.expect(4, "libzc_cuda.so|no NVIDIA driver", self.train("--device", device))

    def test_launchers_that_disagree(self):
        self.expect(2, "OMPI_COMM_WORLD_RANK=0 .*but RANK=1 and WORLD_SIZE=2",
                    self.train(env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "RANK": "1", "WORLD_SIZE": "2"}))
        self.expect(2, "SLURM_PROCID=0 and SLURM_NTASKS=2, but RANK=1 and WORLD_SIZE=2",
                    self.train(env={"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "RANK": "1", "WORLD_SIZE": "2"}))
        self.expect(2, "PMI_RANK=0 and PMI_SIZE=4, but RANK=0 and WORLD_SIZE=2",
                    self.train(env={"PMI_RANK": "0", "PMI_SIZE": "4", "RANK": "0", "WORLD_SIZE": "2"}))
        self.expect(2, "no rank of a job", self.train(env={"RANK": "2", "WORLD_SIZE": "2"}))
        self.expect(2, "--comm inproc", self.train("-n", 2, env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}))
        # Threads are threads, whatever a batch script's environment says.
        self.succeeds(self.train("-n", 2, env={"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}))
        for half, lacks in (({"WORLD_SIZE": "2"}, "RANK"), ({"RANK": "1"}, "WORLD_SIZE"), ({"PMI_SIZE": "2"}, "PMI_RANK")):
            self.expect(2, f"the environment says .* but no {lacks}", self.train(env=half))
            self.succeeds(self.train("-n", 2, "--overwrite", env=half))
        for half in ({"WORLD_SIZE": "1"}, {"RANK": "admiral"}, {"SLURM_NTASKS": "4"}):  # says of no other process
            self.succeeds(self.train("--overwrite", env=half))

    @unittest.skipUnless((pathlib.Path(ZERO_RUN).parent / "libzc_mpi.so").exists(), "built without MPI")
    def test_launchers_that_mpi_does_not_know(self):
        """As under an srun that does not speak this MPI's PMI: each process would train alone, into the same folder."""
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                **self.NO_LEAKS}  # MPI keeps what it took
        for rank, size in (("SLURM_PROCID", "SLURM_NTASKS"), ("PMI_RANK", "PMI_SIZE"), ("RANK", "WORLD_SIZE")):
            self.expect(2, f"rank 1 of {size}=2, but MPI says rank 0 of 1", self.train(env={rank: "1", size: "2", **root}))
        self.assertFalse((self.dir / "out").exists())
        # A batch script's own variables are not those of ranks that it starts by mpirun.
        batch = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
        self.expect(2, "rank 0 of OMPI_COMM_WORLD_SIZE=2, but MPI says", self.train(env={**batch, **root}))

    def test_hosts_must_fit_the_plan(self):
        self.expect(10, "for 2 ranks but --hosts gives 3", self.train("--hosts", "a:2,b"))
        (self.dir / "hosts").write_text("# two machines\na slots=4\n\nb:1  # small\n")
        self.expect(10, "for 2 ranks but --hosts gives 5", self.train("--hosts", self.dir / "hosts"))
        self.expect(10, "for 2 ranks but --hosts gives 6", self.train("-n", 3, "--hosts", "a,b"))
        for bad in ("", "a:0", "a:x", "-x:2", "nowhere/hosts"):
            self.expect(2, "is no host", self.train(f"--hosts={bad},"))

    def test_hosts_without_mpirun(self):
        code, out, err = self.train("--hosts", "a:2", env={"PATH": str(self.dir)})
        self.assertEqual((code, out), (4, ""), err)
        self.assertIn("mpirun cannot be started", err)

    def test_a_launcher_leaves_the_limit_of_open_files(self):
        """To reach a host mpirun closes, one by one, all files that there could be, and the hard limit may be a thousand million."""
        mpirun = self.dir / "bin" / "mpirun"
        mpirun.parent.mkdir()
        mpirun.write_text("#!/bin/bash\nulimit -n >&2\n")
        mpirun.chmod(0o755)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (hard // 2, hard))
        _, _, err = self.train("--hosts", "a:2", env={"PATH": f"{mpirun.parent}:{os.environ['PATH']}"}, preexec_fn=limit)
        self.assertIn(str(hard // 2), err.split())

    def test_results_that_cannot_be_written(self):
        """What was asked for and is not there is an error, of a full disk as of a file; a reader that has gone is none."""
        self.succeeds(self.train())
        plan, out = self.dir / "tiny.plan", self.dir / "out"
        commands = (("--help",), ("doctor",), ("slurm-template",), ("inspect", plan), ("inspect", plan, "--text"), ("inspect", plan, "--kernels"),
                    ("checkpoint", "verify", out), (plan, "--data", self.dir / "data.safetensors", "--steps", "4", "--out", self.dir / "full"))
        with open("/dev/full", "w") as full:
            for command in commands:
                done = subprocess.run([ZERO_RUN, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=600)
                self.assertEqual(done.returncode, 6, (command, done.stderr))
                self.assertIn('cannot write "stdout": no space left on device', done.stderr)
        self.assertEqual(len(self.lines("full")), 4, "what was trained is there")
        for command in commands[:-1]:
            reader, writer = os.pipe()
            os.close(reader)
            self.assertEqual(subprocess.run([ZERO_RUN, *command], stdout=writer, timeout=600).returncode, 0, command)
            os.close(writer)

    def test_streams_that_do_not_block(self):
        """Who shares a pipe with others may have set it so: what is asked for waits for room, and is whole."""
        text, names = run("inspect", self.dir / "tiny.plan", "--text")[1], "x" * 100000
        for number, command, whole in ((1, ("inspect", self.dir / "tiny.plan", "--text"), text), (2, ("inspect", names), names)):
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
            filled = 0
            try:
                while True:
                    filled += os.write(writer, b"-" * 512)
            except BlockingIOError:
                pass
            streams = {"stdout" if number == 1 else "stderr": writer}
            process = subprocess.Popen([ZERO_RUN, *map(str, command)], **streams)
            self.addCleanup(process.kill)
            os.close(writer)
            time.sleep(0.3)
            with open(reader, "rb") as stream:
                said = stream.read()[filled:].decode()
            self.assertEqual(process.wait(timeout=600), 0 if number == 1 else 3)
            self.assertIn(whole, said)

    @unittest.skipIf("TSAN_OPTIONS" in os.environ, "its runtime holds signals back, a quarter of a minute each")
    def test_a_launcher_tells_what_it_was_told(self):
        """Ranks are told by SIGUSR1, whatever the launcher was told by: one that is not through within its --grace ends with that number."""
        mpirun = self.dir / "bin" / "mpirun"
        mpirun.parent.mkdir()
        mpirun.write_text(f"#!/bin/bash\ntrap 'exit {128 + signal.SIGUSR1}' USR1\n: >{self.dir}/ready\nwhile :; do sleep 0.05; done\n")
        mpirun.chmod(0o755)
        for told in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--hosts", "a:2", "--data", "x"], stderr=subprocess.DEVNULL,
                                       env={**os.environ, "PATH": f"{mpirun.parent}:{os.environ['PATH']}"})
            self.addCleanup(process.kill)
            self.wait_for((self.dir / "ready").exists)
            process.send_signal(told)
            self.assertEqual(process.wait(timeout=600), 128 + told)
            (self.dir / "ready").unlink()

    def test_slurm_template(self):
        code, out, err = run("slurm-template")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r'srun --mpi=pmix .*--cpus-per-task="\$SLURM_CPUS_PER_TASK"')
        self.assertEqual(subprocess.run(["bash", "-n"], input=out, text=True).returncode, 0)

    def test_world_size(self):
        self.expect(10, "zero-compile --world-size 3", self.train("-n", 3))

    @unittest.skipIf("ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ, "a sanitizer's addresses are terabytes")
    def test_too_few_addresses(self):
        """OpenBLAS would ask for them for ever before main is reached."""
        code, out, err = run("--version", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (300000 << 10, 300000 << 10)))
        self.assertEqual((code, out), (5, ""), err)
        self.assertRegex(err, "need 268435456 bytes of addresses more than ulimit -v leaves, which is 307200000")
        self.assertEqual(run("--version", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))[0], 0)

    @unittest.skipIf("ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ, "a sanitizer needs more")
    def test_stacks_of_any_size(self):
        """Too little for anything where only that is allowed, and else no matter: threads of 100 GiB would not start."""
        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        for soft, most in ((64 << 10, hard), (1 << 20, 1 << 20), (100 << 30 if hard == resource.RLIM_INFINITY else hard, hard)):
            self.succeeds(self.train("--overwrite", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (soft, most))))
        self.expect(5, r"a stack may have 64.00 KiB \(ulimit -s\), but 512.00 KiB are needed",
                    self.train(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, 64 << 10))))

    def test_no_thread_can_be_started(self):
        """ulimit -u counts what all processes of a user have; root is told no such limit. (The search for leaks would need a thread.)"""
        other = {"user": 54321, "group": 54321, "extra_groups": []} if os.getuid() == 0 else {}
        self.dir.chmod(0o777)
        try:
            ran = self.train(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)), env=self.NO_LEAKS, **other)
        except PermissionError:
            self.skipTest("the programs lie where other users may not look")
        self.expect(5, "cannot start a thread: (.|\n)*ulimit -u", ran)

    def test_bad_files(self):
        plan = (self.dir / "tiny.plan").read_bytes()
        self.expect(3, "cannot", run(self.dir / "none.plan", "--data", "x"))
        for name, data, codes in (("empty", b"", (9, 10)), ("text", b"hello, world\n" * 9, (9, 10)),
                                  ("cut", plan[:-1], (9,)), ("flipped", plan[:99] + bytes([plan[99] ^ 1]) + plan[100:], (9,))):
            path = self.dir / name
            path.write_bytes(data)
            result = run(path, "--data", self.dir / "data.safetensors", "--out", self.dir / "never")
            self.assertIn(result[0], codes, (name, result))
        self.assertFalse((self.dir / "never").exists(), "nothing is made for a bad plan")
        self.expect(3, "none.safetensors", run(self.dir / "tiny.plan", "--data", self.dir / "none.safetensors"))
        (self.dir / "model.onnx").write_bytes(b"other")
        self.expect(10, "has changed", self.train(out="never"))
        self.assertFalse((self.dir / "never").exists(), "nothing is made for a wrong model")

    def test_trace(self):
        self.succeeds(self.train("--trace", "2:3"))
        everything = json.loads((self.dir / "out" / "trace.json").read_text())["traceEvents"]
        lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in everything if e["name"] == "thread_name"}
        events = [e for e in everything if e["ph"] == "X"]
        self.assertEqual({e["args"]["step"] for e in events}, {2, 3})
        self.assertEqual({(e["pid"], e["tid"]) for e in events}, set(lanes))
        self.assertLessEqual({"compute", "comm"}, set(lanes.values()))
        self.assertEqual(min(e["ts"] for e in events), 0)
        self.assertEqual({e["pid"] for e in events}, {0, 1})
        self.assertIn("all_gather", {e["name"] for e in events})

    @unittest.skipIf("TSAN_OPTIONS" in os.environ, "measures the machine, before and after: loops that are watched take a minute each time")
    def test_profile(self):
        code, _, err = self.train("--profile", "2:3", "-n", 2, "--threads", 1)
        self.assertEqual(code, 0, err)
        self.assertIn("steps 2 to 3 of a rank, 1 thread", err)
        self.assertRegex(err, r"here a rank computes at most [\d.]+ GF/s .* the better of before and after the run")
        self.assertNotIn("bytes of memory; its arenas", err)  # what measuring before takes is not the run's
        self.assertRegex(err, r"all_gather +runtime +comm +\d")
        self.assertIn("where most time is lost", err)
        self.assertTrue((self.dir / "out" / "profile.html").exists())
        self.assertNotIn("steps 2 to 3 of a rank", self.train("--quiet", "--profile", "2:3", out="quiet")[2])
        self.expect(2, "FROM:TO", self.train("--profile", "3:1"))
        (self.dir / "blocked" / "profile.html").mkdir(parents=True)
        code, _, err = self.train("--quiet", "--profile", "2:3", out="blocked")
        self.assertEqual((code, err.count("the profile's page is missing")), (0, 1), err)

    def test_inspect_and_doctor(self):
        code, out, _ = run("inspect", self.dir / "tiny.plan")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"world size +2")
        code, out, _ = run("inspect", self.dir / "tiny.plan", "--text")
        self.assertIn('kernel', out)
        self.assertRegex(out, r'strings: "all_gather"')
        code, out, _ = run("doctor")
        self.assertEqual(code, 0)
        for word in ("cpu", "cores", "memory", "OpenBLAS", "oneDNN", "io_uring", "cuda"):
            self.assertRegex(out, rf"(?m)^{word} ")

    def test_links_no_compiler(self):
        linked = subprocess.run(["ldd", ZERO_RUN], capture_output=True, text=True).stdout
        self.assertIsNone(re.search("LLVM|MLIR", linked), linked)

    def test_default_output_folder(self):
        code, _, err = run(self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", 1, cwd=self.dir)
        self.assertEqual(code, 0, err)
        self.assertTrue((self.dir / "runs" / "tiny" / "final" / "weights.safetensors").exists())


if __name__ == "__main__":
    main()
