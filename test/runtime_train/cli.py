#!/usr/bin/env python3
"""zero-run's command line: exit codes, messages, outputs. Usage: cli.py ZERO_RUN WRITE_PLAN"""
import ctypes, json, os, pathlib, re, resource, shutil, signal, subprocess, sys, tempfile, time, unittest, zipfile

ZERO_RUN, WRITE_PLAN = (os.path.abspath(tool) for tool in sys.argv[1:3])


def run(*args, cwd=None, env=None, **more):
    """Exit code, stdout, stderr; whatever happens no signal and no time-out."""
    done = subprocess.run([ZERO_RUN, *map(str, args)], cwd=cwd, env={**os.environ, **(env or {})}, text=True,
                          capture_output=True, timeout=120, **more)
    return done.returncode, done.stdout, done.stderr


class ZeroRun(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.temp.name)
        self.write_plan()

    def tearDown(self):
        self.temp.cleanup()

    def write_plan(self, world=2, accumulation=1, placement=1):
        subprocess.run([WRITE_PLAN, str(self.dir), str(world), str(accumulation), str(placement)], check=True)

    def train(self, *more, steps=4, out="out", **how):
        return run(self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", steps, "--out",
                   self.dir / out, *more, **how)

    def expect(self, code, says, result):
        self.assertEqual(result[0], code, result)
        self.assertRegex(result[2], says)
        self.assertRegex(result[2], r"error\[Z\d{4}\]: ")
        self.assertEqual(result[1], "")

    def lines(self, out="out"):
        return [json.loads(line) for line in (self.dir / out / "metrics.jsonl").read_text().splitlines()]

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

    def test_export(self):
        self.assertEqual(self.train()[0], 0)
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

    def test_usage(self):
        self.expect(2, 'did you mean "--steps"', self.train("--stepz", "3"))
        self.expect(2, "unknown flag", self.train("--zzzzzzzzzzzz"))
        self.expect(2, "unexpected argument", self.train("another"))
        self.expect(2, "nproc-per-node", self.train("-n", "0"))
        self.expect(2, "nproc-per-node", self.train("-n", "two"))
        self.expect(2, "needs data", run(self.dir / "tiny.plan"))
        self.expect(2, "exclude", self.train("--tokens", "x"))
        self.expect(2, "no plan", run("--steps", 3))
        self.expect(2, "is none of constant, linear", self.train("--lr-schedule", "stairs"))
        self.expect(2, "FROM:TO", self.train("--trace", "3:1"))

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
        self.assertRegex(err, r"the data have \d+ samples but a step takes 32: samples repeat within a step")

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
        self.assertEqual(self.train("-n", 2, env={"SLURM_PROCID": "0", "SLURM_NTASKS": "4"})[0], 0)

    @unittest.skipUnless((pathlib.Path(ZERO_RUN).parent / "libzc_mpi.so").exists(), "built without MPI")
    def test_launchers_that_mpi_does_not_know(self):
        """As under an srun that does not speak this MPI's PMI: each process would train alone, into the same folder."""
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}  # MPI keeps what it took
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
        for bad in ("", "a:0", "a:x", "-x:2"):
            self.expect(2, "is no host", self.train(f"--hosts={bad},"))

    def test_hosts_without_mpirun(self):
        code, out, err = self.train("--hosts", "a:2", env={"PATH": str(self.dir)})
        self.assertEqual((code, out), (4, ""), err)
        self.assertIn("mpirun cannot be started", err)

    def test_slurm_template(self):
        code, out, err = run("slurm-template")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("srun --mpi=pmix", out)
        self.assertEqual(subprocess.run(["bash", "-n"], input=out, text=True).returncode, 0)

    def test_watchdog_and_flight_recorder(self):
        fault = {"ZERO_FAULT": "coll.allgather@rank=1,step=3,n=1:delay=600s"}
        self.expect(11, "nothing has moved for 0.5 s: rank 0 waits in all_gather.* of step 3 for rank 1: it left",
                    self.train("--quiet", "--watchdog", 0.5, env=fault))
        record = json.loads((self.dir / "out" / "flight-recorder.json").read_text())
        self.assertEqual([r["rank"] for r in record["ranks"]], [0, 1])
        self.assertTrue(record["ranks"][0]["inside"] and not record["ranks"][1]["inside"])
        self.assertIsNone(record["ranks"][0]["last"][-1]["took_seconds"])

    def test_what_never_answers_ends_the_job_and_is_named(self):
        """A file server that is gone: whoever waits for it, one rank or all of them in the same place."""
        save = ("--save-every", 2)
        self.assertEqual(self.train(*save, out="saved")[0], 0)
        for fault, who, doing, more in (
                ("file.read@rank=1,step=3", "rank 1", 'reading ".*/data.safetensors" for .*, in step 3', ()),
                ("file.read@step=3", "rank [01]", 'reading ".*/data.safetensors" for .*, in step 3', ()),
                ("file.open@n=1", "this process", 'opening ".*/data.safetensors"', ()),
                ("file.write@rank=1,step=2", "rank 1", 'writing ".*/step-2.tmp/weights.safetensors"', save),
                ("file.fsync@step=2", "rank [01]", 'bringing to disk ".*/step-2.tmp/weights.safetensors"', save),
                ("file.rename@step=2", "rank 0", 'putting in place ".*/step-2.tmp/manifest.json"', save),
                ("folder.rename@step=2", "rank 0", 'putting in place ".*/step-2"', save),
                ("metrics.write@step=2", "rank 0", 'writing ".*/metrics.jsonl"', ()),
                ("file.read@rank=1,step=0", "rank 1", 'reading ".*/saved/final/(weights|moment[12]).safetensors"', ("--resume", self.dir / "saved"))):
            with self.subTest(fault):
                began = time.time()
                self.expect(11, f"nothing has moved for 0.5 s: {who} has been {doing}",
                            self.train("--quiet", "--watchdog", 0.5, *more, out=fault, env={"ZERO_FAULT": fault + ":delay=600s"}))
                self.assertLess(time.time() - began, 10)

    def test_a_kernel_that_computes_for_ever(self):
        """One rank or all of them, on a thread per queue or all inline: the kernel and its node are named."""
        for rank, who, more in (("rank=1,", "rank 1|rank 0 waits in .* for rank 1: it", ()), ("", "rank [01]", ()),
                                ("rank=1,", "rank 1|rank 0 waits in .* for rank 1: it", ("--device", "sync"))):
            with self.subTest(rank=rank, more=more):
                began = time.time()
                self.expect(11, f'nothing has moved for 1 s: ({who}) has been computing "[a-z_]+" of node ".*" for [12]\\.',
                            self.train("--quiet", "--watchdog", 1, *more, out=f"kernel{rank}{more}",
                                       env={"ZERO_FAULT": f"kernel.run@{rank}step=3,n=1:delay=600s"}))
                self.assertLess(time.time() - began, 10)

    def test_the_one_that_waits_names_the_file_of_the_other(self):
        """Rank 0 has waited for longer than rank 1 has been reading: it tells first, and what for."""
        fault = {"ZERO_FAULT": "step.begin@rank=1,step=3:delay=600ms; file.read@rank=1,step=3:delay=600s"}
        self.expect(11, 'rank 0 waits in .* for rank 1: it has been reading ".*data.safetensors"|rank 1 has been reading',
                    self.train("--quiet", "--watchdog", 1, env=fault))

    def test_f11_a_signal_that_a_helper_thread_gets_is_not_lost(self):
        for pick in (0, -1):
            out = self.dir / f"helper{pick}"
            process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "100000000",
                                        "--out", out, "--quiet"], stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            metrics, deadline = out / "metrics.jsonl", time.time() + 60
            while not (metrics.exists() and metrics.stat().st_size > 1000) and time.time() < deadline:
                time.sleep(0.02)
            tasks = pathlib.Path(f"/proc/{process.pid}/task")
            blocked = {int(task.name): int(re.search(r"SigBlk:\t(\w+)", (task / "status").read_text())[1], 16) for task in tasks.iterdir()}
            takes = sorted(tid for tid, mask in blocked.items() if tid != process.pid and not mask >> (signal.SIGUSR1 - 1) & 1)
            self.assertGreater(len(takes), 1, blocked)
            self.assertGreater(len(blocked), len(takes) + 1, "the watchdog leaves signals to others")
            libc = ctypes.CDLL(None, use_errno=True)
            self.assertEqual(libc.syscall(234, process.pid, takes[pick], int(signal.SIGUSR1)), 0)  # tgkill
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 75, err)
            self.assertTrue(list(out.glob("step-*/manifest.json")))

    @unittest.skipUnless(shutil.which("cc"), "no C compiler for the clock that jumps")
    def test_f55_a_clock_that_jumps(self):
        """Forward and back by an hour, once a second: nothing is taken for stuck, steps take what they take, all else is the same."""
        (self.dir / "jump.c").write_text('''
            #define _GNU_SOURCE
            #include <sys/syscall.h>
            #include <sys/time.h>
            #include <time.h>
            #include <unistd.h>
            static long jump(void) {
              struct timespec t;
              syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
              return t.tv_nsec / 300000000 % 3 * 3600 - 3600;
            }
            int clock_gettime(clockid_t clock, struct timespec *t) {
              int failed = syscall(SYS_clock_gettime, clock, t);
              if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) t->tv_sec += jump();
              return failed;
            }
            int gettimeofday(struct timeval *t, void *zone) {
              struct timespec now;
              clock_gettime(CLOCK_REALTIME, &now);
              t->tv_sec = now.tv_sec, t->tv_usec = now.tv_nsec / 1000;
              return 0;
            }
            time_t time(time_t *t) {
              struct timespec now;
              clock_gettime(CLOCK_REALTIME, &now);
              return t ? *t = now.tv_sec : now.tv_sec;
            }''')
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.dir / "jump.so", self.dir / "jump.c"], check=True)
        # AddressSanitizer wants to be loaded first, which it does not need here.
        preload = {"LD_PRELOAD": str(self.dir / "jump.so"),
                   "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        self.assertEqual(self.train(out="steady", steps=6)[0], 0)
        # Rank 1 writes its part slowly, longer than the watchdog lets a collective take; then all steps are slow.
        slow = {"ZERO_FAULT": "file.write@rank=1:delay=600ms; step.begin@rank=0:delay=150ms", **preload}
        code, _, err = self.train("--quiet", "--watchdog", 1, env=slow, steps=6)
        self.assertEqual(code, 0, err)
        self.assertNotIn("sign", err)
        self.assertEqual([m["step"] for m in self.lines()], list(range(1, 7)))
        self.assertTrue(all(0 < m["step_seconds"] < 60 for m in self.lines()), self.lines())
        self.assertEqual([m["loss"] for m in self.lines()], [m["loss"] for m in self.lines("steady")])
        stuck = {"ZERO_FAULT": "coll.allgather@rank=1,step=3,n=1:delay=600s", **preload}
        began = time.time()
        self.expect(11, "nothing has moved for 2 s: rank 0 waits", self.train("--quiet", "--watchdog", 2, env=stuck, out="stuck"))
        self.assertLess(time.time() - began, 15)

    def test_f48_more_memory_than_planned_is_said_at_once(self):
        code, _, err = self.train(steps=4, env={"ZERO_FAULT": "memory.resident@step=2:EIO"})
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"step 2: the process took 1\d{12} bytes of memory; its arenas were planned to take \d+")
        self.assertEqual(err.count("were planned"), 1)
        code, _, err = self.train(steps=4, out="next", env={"ZERO_FAULT": "memory.resident:EIO"})
        self.assertEqual(err.count("were planned"), 1, "once, though it is so in every step")
        self.assertEqual(self.train("--quiet", steps=4, out="fine")[2], "")

    def test_f49_who_is_told_to_stop_says_what_was_killed_for_memory(self):
        """As mpirun does to the ranks that are left when one was killed: TERM, and a second later KILL."""
        for kills, said in (("n=2+", "killed a process for want of memory since this run began \\(oom_kill rose from"), ("n=1", None)):
            out = self.dir / f"oom{kills}"
            process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "100000000",
                                        "--out", out, "--quiet"], stderr=subprocess.PIPE, text=True, env={**os.environ, "ZERO_FAULT":
                                        f"memory.events@{kills}:EIO; kernel.run@rank=1,step=40:delay=600s"})
            self.addCleanup(process.kill)
            metrics, deadline = out / "metrics.jsonl", time.time() + 60
            while not (metrics.exists() and len(metrics.read_text().splitlines()) == 39) and time.time() < deadline:
                time.sleep(0.02)
            process.terminate()
            time.sleep(1)
            process.kill()
            _, err = process.communicate(timeout=60)
            self.assertRegex(err, said) if said else self.assertEqual(err, "")

    def test_reserve_takes_all_memory_first(self):
        code, out, err = self.train("--reserve", "--quiet")
        self.assertEqual(code, 0, err)
        device = json.loads(out.splitlines()[-1])["peak_bytes"]["device"]
        self.assertEqual(device["measured"], -(-device["planned"] // 4096) * 4096)
        self.expect(5, "cannot map .* after 0: ", self.train("--reserve", out="refused", env={"ZERO_FAULT": "arena.reserve@rank=1:ENOMEM"}))
        self.assertEqual((self.dir / "refused/metrics.jsonl").read_text(), "")

    def test_a_slow_rank_is_named_and_not_killed(self):
        code, _, err = self.train("--quiet", "--watchdog", 5, env={"ZERO_FAULT": "step.begin@rank=1:delay=80ms"}, steps=6)
        self.assertEqual(code, 0, err)
        self.assertRegex(err, "rank 1 is slow: in step 3 the others waited for it")

    def test_collectives_that_differ(self):
        self.expect(7, "collectives differ: rank 0 calls all_gather of .* rank 1 calls all_gather of",
                    self.train("--quiet", env={"ZERO_FAULT": "coll.allgather@rank=1,step=2,n=1:short"}))

    def test_killed_anywhere_in_a_save(self):
        """What is killed while it saves continues to the bits of an undisturbed run."""
        self.assertEqual(self.train(out="whole", steps=6)[0], 0)
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
        self.assertEqual(self.train("--lr-schedule", "constant", out="whole", steps=6)[0], 0)
        self.assertEqual(self.train("--lr-schedule", "constant", steps=2)[0], 0)
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

    def test_a_full_disk_ends_the_save_and_keeps_what_was_saved(self):
        flags = ("--save-every", 2, "--quiet")
        self.expect(6, "no space left", self.train(*flags, env={"ZERO_FAULT": "ckpt.manifest@n=2:ENOSPC"}))
        self.assertEqual(self.train(*flags, "--resume", "auto")[0], 0)

    def test_bad_fault_rules(self):
        self.expect(2, "no rule for failpoints", self.train(env={"ZERO_FAULT": "nonsense"}))

    def test_world_size(self):
        self.expect(10, "zero-compile --world-size 3", self.train("-n", 3))

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
        self.assertEqual([p.name for p in (self.dir / "full").iterdir() if p.name != ".lock"], [])

    def test_closed_streams_do_not_kill(self):
        for fd in (0, 1, 2):
            code, out, err = self.train("--overwrite", preexec_fn=lambda: os.close(fd))
            self.assertEqual(code, 0, (fd, err))
            self.assertEqual(len(self.lines()), 4)
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "4",
                               "--out", self.dir / "out", "--overwrite", "--log-format", "json"], stdout=writer, timeout=120)
        os.close(writer)
        self.assertEqual(done.returncode, 0)

    def test_a_full_pipe_does_not_stop_training(self):
        """A pager, Ctrl-S: lines may be lost, steps and their metrics not."""
        reader, writer = os.pipe()
        process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "1200",
                                    "--out", self.dir / "out"], stderr=writer, stdout=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        os.close(writer)
        self.assertEqual(process.wait(timeout=100), 0)
        self.assertEqual(len(self.lines()), 1200)
        os.close(reader)

    def test_a_save_that_is_slow_is_not_stuck(self):
        """The others wait for longer than the watchdog allows, but the rank that writes gets on."""
        slow = {"ZERO_FAULT": "file.write@rank=1:delay=600ms"}
        code, _, err = self.train("--quiet", "--watchdog", 1, steps=1, env=slow)
        self.assertEqual(code, 0, err)

    def test_checkpoint_verify(self):
        self.assertEqual(self.train("--save-every", 2)[0], 0)
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

    def test_ordinary_mistakes_with_folders(self):
        self.assertEqual(self.train("--save-every", 2)[0], 0)
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
        self.expect(6, "cannot make folder .*: not a directory", self.train(out="tiny.plan"))
        # Links, trailing slashes, spaces and other letters are as good as any.
        (self.dir / "real").mkdir()
        (self.dir / "link").symlink_to("real")
        self.assertEqual(self.train(out="link", steps=2)[0], 0)
        self.assertTrue((self.dir / "real/final/manifest.json").exists())
        odd = "o u t/\u00fc \u4e16"
        for flag, value in (("--resume", f"{self.dir}/out/"), ("--resume", f"{final}/"), ("--weights", f"{self.dir}/out/"), ("--weights", f"{final}/")):
            code, _, err = self.train(flag, value, "--overwrite" if flag == "--weights" else "--quiet", out=f"{odd}{flag}{len(value)}", steps=6)
            self.assertEqual(code, 0, err)
        self.assertEqual(run("export", "out", "--safetensors", "x y.safetensors", cwd=self.dir)[0], 0)
        self.assertEqual({path: path.read_bytes() for path in (self.dir / "out").rglob("*") if path.is_file()}, before)

    def test_an_output_is_no_input(self):
        self.assertEqual(self.train()[0], 0)
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
        self.assertEqual(self.train("--weights", self.dir / "out/final", out="next")[0], 0)

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

    def test_signals(self):
        process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps",
                                    "100000000", "--out", self.dir / "out", "--quiet"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        metrics = self.dir / "out" / "metrics.jsonl"
        deadline = time.time() + 60
        while not (metrics.exists() and metrics.stat().st_size > 1000) and time.time() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn("--resume auto", err)
        step = self.lines()[-1]["step"]
        self.assertTrue((self.dir / "out" / f"step-{step}" / "manifest.json").exists())
        code, out, err = self.train("--resume", "auto", steps=step + 2)
        self.assertEqual(code, 0, err)
        self.assertEqual([m["step"] for m in self.lines()], list(range(1, step + 3)))
        self.assertEqual(json.loads(out.splitlines()[-1])["steps"], 2)

    def test_f57_a_trace_that_cannot_be_written_is_a_warning(self):
        (self.dir / "out" / "trace.json").mkdir(parents=True)
        code, out, err = self.train("--trace", "2:3", "--quiet")
        self.assertEqual(code, 0, err)
        self.assertEqual(err.count("the trace is missing"), 1, err)

    def test_f57_metrics_that_cannot_be_written_are_a_warning(self):
        code, out, err = self.train("--quiet", env={"ZERO_FAULT": "metrics.write@n=3+:ENOSPC"})
        self.assertEqual((code, json.loads(out.splitlines()[-1])["steps"]), (0, 4), err)
        self.assertEqual(err.count("metrics.jsonl is incomplete"), 1, err)
        self.assertEqual([m["step"] for m in self.lines()], [1, 2])

    def test_f8_a_signal_while_it_waits_for_data_or_warms_up(self):
        for site in ("file.read@step=3", "step.begin@step=3"):
            out = self.dir / site
            process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "100", "--warmup", "50",
                                        "--out", out, "--quiet"], stderr=subprocess.PIPE, text=True, env={**os.environ, "ZERO_FAULT": site + ":delay=2s"})
            self.addCleanup(process.kill)
            metrics, deadline = out / "metrics.jsonl", time.time() + 60
            while not (metrics.exists() and metrics.read_text().count("\n") == 2) and time.time() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 75, err)
            self.assertEqual(len(self.lines(site)), 3)
            self.assertTrue((out / "step-3/manifest.json").exists())

    def test_trace(self):
        self.assertEqual(self.train("--trace", "2:3")[0], 0)
        everything = json.loads((self.dir / "out" / "trace.json").read_text())["traceEvents"]
        lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in everything if e["name"] == "thread_name"}
        events = [e for e in everything if e["ph"] == "X"]
        self.assertEqual({e["args"]["step"] for e in events}, {2, 3})
        self.assertEqual({(e["pid"], e["tid"]) for e in events}, set(lanes))
        self.assertLessEqual({"compute", "comm"}, set(lanes.values()))
        self.assertEqual(min(e["ts"] for e in events), 0)
        self.assertEqual({e["pid"] for e in events}, {0, 1})
        self.assertIn("all_gather", {e["name"] for e in events})

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

    def test_one_run_per_folder(self):
        process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps",
                                    "100000000", "--out", self.dir / "out", "--quiet"], stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        deadline = time.time() + 60
        while not (self.dir / "out" / "metrics.jsonl").exists() and time.time() < deadline:
            time.sleep(0.02)
        self.expect(2, "another run is writing into .*: process %d on ." % process.pid, self.train())
        process.kill()
        process.wait()


if __name__ == "__main__":
    done = unittest.main(argv=[sys.argv[0]], exit=False).result
    failed = len(done.failures) + len(done.errors)
    sys.stderr.flush()
    print(f"{done.testsRun - failed} passed, {failed} failed", flush=True)
    sys.exit(failed > 0)
