#!/usr/bin/env python3
"""zero-run when something goes wrong while it runs: hangs, signals, clocks, memory, pipes. Usage: cli_faults.py ZERO_RUN WRITE_PLAN"""
import ctypes, fcntl, json, os, pathlib, re, select, shutil, signal, subprocess, termios, time, unittest

from zero_run import BY_ITSELF, ZERO_RUN, ZeroRunTest, main


class Faults(ZeroRunTest):
    def test_watchdog_and_flight_recorder(self):
        fault = "coll.allgather@rank=1,step=3,n=1:delay=600s"
        self.watched("rank 0 waits in all_gather.* of step 3 for rank 1: it left", fault=fault)
        record = json.loads((self.dir / "out" / "flight-recorder.json").read_text())
        self.assertEqual([r["rank"] for r in record["ranks"]], [0, 1])
        self.assertTrue(record["ranks"][0]["inside"] and not record["ranks"][1]["inside"])
        self.assertIsNone(record["ranks"][0]["last"][-1]["took_seconds"])
        self.expect(11, "nothing has moved for 0.05 s", self.train("--quiet", "--watchdog", 0.05, env={"ZERO_FAULT": fault}, out="shortest"))

    def test_what_never_answers_ends_the_job_and_is_named(self):
        """A file server that is gone: whoever waits for it, one rank or all of them in the same place."""
        save = ("--save-every", 2)
        self.succeeds(self.train(*save, out="saved"))
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
                self.watched(f"{who} has been {doing}", *more, out=fault, fault=fault + ":delay=600s")

    def test_a_kernel_that_computes_for_ever(self):
        """One rank or all of them, on a thread per queue, all inline or on streams: the kernel and its node are named."""
        one, all = "rank 1|rank 0 waits in .* for rank 1: it", "rank [01]"
        for which, who, more in (("rank=1,step=3,n=1", one, ()), ("step=3", all, ()), ("rank=1,step=3,n=1", one, ("--device", "sync")),
                                 ("rank=1,step=3,n=1", one, ("--device", "fake")), ("step=3", all, ("--device", "fake"))):
            with self.subTest(which=which, more=more):
                self.watched(f'({who}) has been computing "[a-z_]+" of node ".*" for \\d+\\.', *more, out=f"kernel {which} {more}",
                             fault=f"kernel.run@{which}:delay=600s")

    def test_time_in_which_the_process_was_stopped_does_not_count(self):
        """Ctrl-Z and fg, or a machine that was suspended, while a rank waits for another: nothing was stuck."""
        for number in range(2):
            process = self.start("--watchdog", 4, steps=6, out=f"stopped{number}", fault="step.begin@rank=1,step=3:delay=6500ms")
            self.wait_for(self.has_steps(2, f"stopped{number}"))
            time.sleep(0.5)
            process.send_signal(signal.SIGSTOP)
            time.sleep(4.5)
            process.send_signal(signal.SIGCONT)
            self.assertEqual(process.wait(timeout=600), 0, process.stderr.read())

    def test_the_one_that_waits_names_the_file_of_the_other(self):
        """Rank 0 has waited for longer than rank 1 has been reading: it tells first, and what for."""
        self.watched('rank 0 waits in .* for rank 1: it has been reading ".*data.safetensors"|rank 1 has been reading',
                     fault="step.begin@rank=1,step=3:delay=600ms; file.read@rank=1,step=3:delay=600s")

    def test_f11_signals_are_the_main_threads(self):
        """Ranks, queues, teams, disks: a call to the system that one of them is in is not interrupted, and none is lost. Those of a crash
        stay theirs."""
        for device in ("cpu", "fake", "sync"):
            process = self.start("--device", device, "--threads", 2, out=device)
            self.wait_for(self.has_steps(20, device))
            tasks = pathlib.Path(f"/proc/{process.pid}/task")
            blocked = {int(task.name): int(re.search(r"SigBlk:\t(\w+)", (task / "status").read_text())[1], 16) for task in tasks.iterdir()}
            takes = lambda number: sorted(tid for tid, mask in blocked.items() if not mask >> (number - 1) & 1)
            self.assertGreater(len(blocked), 3)
            for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                self.assertEqual(takes(number), [process.pid], (device, blocked))
            self.assertEqual(takes(signal.SIGSEGV), sorted(blocked))
            process.send_signal(signal.SIGUSR1)
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 75, err)
            self.assertTrue(list((self.dir / device).glob("step-*/manifest.json")))

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
        self.succeeds(self.train(out="steady", steps=6))
        # Rank 1 writes its part slowly, longer than the watchdog lets a collective take; then all steps are slow.
        self.assertNotIn("sign", self.is_slow_and_not_stuck("; step.begin@rank=0:delay=150ms", env=preload, steps=6))
        self.assertEqual([m["step"] for m in self.lines()], list(range(1, 7)))
        self.assertTrue(all(0 < m["step_seconds"] < 60 for m in self.lines()), self.lines())
        self.assertEqual([m["loss"] for m in self.lines()], [m["loss"] for m in self.lines("steady")])
        self.watched("rank 0 waits", fault="coll.allgather@rank=1,step=3,n=1:delay=600s", env=preload, out="stuck")

    def test_f48_more_memory_than_planned_is_said_at_once(self):
        code, _, err = self.train(steps=4, env={"ZERO_FAULT": "memory.resident@step=2:EIO"})
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"step 2: the process took 1\d{12} bytes of memory; its arenas were planned to take \d+")
        self.assertEqual(err.count("were planned"), 1)
        code, _, err = self.train(steps=4, out="next", env={"ZERO_FAULT": "memory.resident:EIO"})
        self.assertEqual(err.count("were planned"), 1, "once, though it is so in every step")
        self.assertEqual(self.train("--quiet", steps=4, out="fine")[2], "")
        starter = b"x" * (400 << 20)  # as torch in the Python that starts it: not this program's memory
        code, out, err = self.train("--quiet", steps=4, out="started")
        self.assertEqual((code, err), (0, ""))
        self.assertLess(json.loads(out.splitlines()[-1])["resident_memory"], len(starter))

    def test_f49_who_is_told_to_stop_says_what_was_killed_for_memory(self):
        """As mpirun does to the ranks that are left when one was killed: TERM, and a second later KILL."""
        for kills, said in (("n=2+", "killed a process for want of memory since this run began \\(oom_kill rose from"), ("n=1", None)):
            out = self.dir / f"oom{kills}"
            process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "100000000",
                                        "--out", out, "--quiet"], stderr=subprocess.PIPE, text=True, env={**os.environ, "ZERO_FAULT":
                                        f"memory.events@{kills}:EIO; kernel.run@rank=1,step=40:delay=600s"})
            self.addCleanup(process.kill)
            metrics, deadline = out / "metrics.jsonl", time.time() + 300
            while not (metrics.exists() and len(metrics.read_text().splitlines()) == 39) and time.time() < deadline:
                time.sleep(0.02)
            process.terminate()
            select.select([process.stderr], [], [], 60 if said else 1)
            process.kill()
            _, err = process.communicate(timeout=600)
            self.assertRegex(err, said) if said else self.assertEqual(err, "")

    @unittest.skipIf("ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ, "a sanitizer's own report takes its place")
    def test_a_crash_leaves_where_it_was(self):
        """On any thread: the trace is in the run's folder, and the process ends as a crash does."""
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT):
            process = self.start(steps=100000000, out=f"crash{number}")
            self.wait_for(self.has_steps(2, f"crash{number}"))
            threads = [int(thread) for thread in os.listdir(f"/proc/{process.pid}/task")]
            self.assertGreater(len(threads), 2)
            thread = process.pid if number == signal.SIGBUS else max(threads)
            self.assertEqual(ctypes.CDLL(None).syscall(234, process.pid, thread, int(number)), 0)  # tgkill on x86-64
            self.assertEqual(process.wait(timeout=600), -number)
            trace = (self.dir / f"crash{number}" / "crash-rank-0.txt").read_text().splitlines()
            self.assertGreater(len(trace), 2)
            self.assertRegex(trace[0], r"zero-run.*\[0x[0-9a-f]+\]")

    def test_reserve_takes_all_memory_first(self):
        code, out, err = self.train("--reserve", "--quiet")
        self.assertEqual(code, 0, err)
        device = json.loads(out.splitlines()[-1])["peak_bytes"]["device"]
        self.assertEqual(device["measured"], -(-device["planned"] // 4096) * 4096)
        self.expect(5, "cannot map .* after 0: ", self.train("--reserve", out="refused", env={"ZERO_FAULT": "arena.reserve@rank=1:ENOMEM"}))
        self.assertFalse((self.dir / "refused/metrics.jsonl").exists())

    def test_a_slow_rank_is_named_and_not_killed(self):
        taken = {}
        for delay in ("1ms", "300ms"):
            code, out, err = self.train("--quiet", "--watchdog", 60, "--overwrite", env={"ZERO_FAULT": f"step.begin@rank=1:delay={delay}"}, steps=12)
            self.assertEqual(code, 0, err)
            taken[delay] = json.loads(out.splitlines()[-1])["steady_allocations"]
        self.assertEqual(taken["300ms"], taken["1ms"], "what is said of a step is no part of it")
        self.assertRegex(err, r"rank 1 is slow: in step ([3-9]|1\d) the others waited for it")

    def test_collectives_that_differ(self):
        self.expect(7, "collectives differ: rank 0 calls all_gather of .* rank 1 calls all_gather of",
                    self.train("--quiet", env={"ZERO_FAULT": "coll.allgather@rank=1,step=2,n=1:short"}))

    def test_bad_fault_rules(self):
        self.expect(2, "no rule for failpoints", self.train(env={"ZERO_FAULT": "nonsense"}))

    def test_closed_streams_do_not_kill(self):
        for fd in (0, 1, 2):
            code, out, err = self.train("--overwrite", preexec_fn=lambda: os.close(fd))
            self.assertEqual(code, 0, (fd, err))
            self.assertEqual(len(self.lines()), 4)
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "4",
                               "--out", self.dir / "out", "--overwrite", "--log-format", "json"], stdout=writer, timeout=600)
        os.close(writer)
        self.assertEqual(done.returncode, 0)

    def test_a_full_pipe_does_not_stop_training(self):
        """A pager, Ctrl-S: lines may be lost, steps and their metrics not."""
        reader, writer = os.pipe()
        process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "1200",
                                    "--out", self.dir / "out"], stderr=writer, stdout=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        os.close(writer)
        self.assertEqual(process.wait(timeout=600), 0)
        self.assertEqual(len(self.lines()), 1200)
        os.close(reader)

    def test_a_save_that_is_slow_is_not_stuck(self):
        """The others wait for longer than the watchdog allows, but the rank that writes gets on."""
        self.is_slow_and_not_stuck("", steps=1)

    def test_signals(self):
        process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps",
                                    "100000000", "--out", self.dir / "out", "--quiet"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        metrics = self.dir / "out" / "metrics.jsonl"
        deadline = time.time() + 300
        while not (metrics.exists() and metrics.stat().st_size > 1000) and time.time() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn("--resume auto", err)
        step = self.lines()[-1]["step"]
        self.assertTrue((self.dir / "out" / f"step-{step}" / "manifest.json").exists())
        code, out, err = self.train("--resume", "auto", steps=step + 2)
        self.assertEqual(code, 0, err)
        self.assertEqual([m["step"] for m in self.lines()], list(range(1, step + 3)))
        self.assertEqual(json.loads(out.splitlines()[-1])["steps"], 2)

    def test_a_request_that_comes_twice_at_once(self):
        """`timeout` tells the process and then its group, of which that is one; so do batch systems."""
        done = subprocess.run(["timeout", "3", ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "100000000",
                               "--out", self.dir / "timeout", "--quiet"], stderr=subprocess.PIPE, text=True)
        self.assertIn("its state is saved", done.stderr)
        process = self.start("--save-every", 1000000, steps=100000000)
        self.wait_for(self.has_steps(2))
        process.send_signal(signal.SIGTERM)
        time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 75, err)

    def test_f8_a_signal_while_it_evaluates(self):
        """While it computes, and while it waits for the data: it ends after the step, and leaves nothing half."""
        for number, fault in enumerate(("kernel.run@rank=0:delay=600ms", "file.read@step=2:delay=5s")):
            out, outputs = self.dir / f"eval{number}", self.dir / f"outputs{number}.safetensors"
            process = subprocess.Popen([ZERO_RUN, "eval", self.dir / "eval.plan", "--data", self.dir / "data.safetensors", "--out", out,
                                        "--outputs", outputs], stderr=subprocess.PIPE, text=True, env={**os.environ, "ZERO_FAULT": fault})
            self.addCleanup(process.kill)
            status = pathlib.Path(f"/proc/{process.pid}/status")
            self.wait_for(lambda: int(re.search(r"SigCgt:\t(\w+)", status.read_text())[1], 16) >> (signal.SIGTERM - 1) & 1 and out.exists())
            process.terminate()
            began = time.time()
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 75, err)
            self.assertRegex(err, "stopped after step [1-6], nothing is kept")
            self.assertLess(time.time() - began, BY_ITSELF)
            self.assertEqual([path.name for path in out.iterdir()], [])
            self.assertEqual(list(self.dir.glob(outputs.name + "*")), [])

    def test_f7_longer_than_its_grace(self):
        """Told to stop in a kernel that computes for ever, it ends by itself, says so, and the newest checkpoint goes on."""
        flags = ("--lr-schedule", "constant", "--save-every", 2)
        process = self.start(*flags, "--grace", 1, steps=6, fault="kernel.run@rank=1,step=5,n=1:delay=600s")
        self.wait_for((self.dir / "out/step-4").exists)  # its metrics come before
        began = time.time()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=600), 128 + signal.SIGTERM)
        self.assertLess(time.time() - began, BY_ITSELF)
        self.assertRegex(process.stderr.read(), r"error\[Z0982\]: told to stop, .* within the 1 s of --grace")
        code, _, err = self.train(*flags, "--resume", "auto", steps=6)
        self.assertEqual(code, 0, err)
        self.assertIn("continuing after step 4", err)
        process = self.start(*flags, "--grace", 1000, out="soon")  # one that is soon enough is as without
        self.wait_for(self.has_steps(2, "soon"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=600), 75)

    def test_f7_a_terminal_that_closes(self):
        """The shell tells it, and the system once more, and what it says goes nowhere: it saves all the same."""
        keeper, terminal = os.openpty()
        process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "100000000", "--out",
                                    self.dir / "out"], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), env={**os.environ, "ZERO_FAULT": "ckpt.manifest:delay=1s"})
        self.addCleanup(process.kill)
        os.close(terminal)
        self.wait_for(self.has_steps(20))
        os.close(keeper)
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(timeout=600), 75)
        self.assertTrue((self.dir / f"out/step-{self.lines()[-1]['step']}/manifest.json").exists())

    def test_signals_that_are_ignored_stay_so(self):
        """By nohup, or by a script's shell, which has what it starts beside itself ignore Ctrl-C."""
        for number in (signal.SIGHUP, signal.SIGINT):
            out = self.dir / number.name
            process = subprocess.Popen([ZERO_RUN, self.dir / "tiny.plan", "--data", self.dir / "data.safetensors", "--steps", "100000000", "--out", out,
                                        "--quiet"], stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
            self.addCleanup(process.kill)
            self.wait_for(self.has_steps(2, out))
            process.send_signal(number)
            before = len((out / "metrics.jsonl").read_text().splitlines())
            self.wait_for(self.has_steps(before + 20, out))
            process.terminate()
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 75, err)

    def test_f9_told_twice_it_ends_at_once(self):
        """In a kernel that computes for ever, or in the middle of a save: what was saved before goes on to the same bits."""
        flags = ("--lr-schedule", "constant", "--save-every", 2)
        self.succeeds(self.train("--lr-schedule", "constant", out="whole", steps=6))
        whole = (self.dir / "whole/final/weights.safetensors").read_bytes()
        for number, fault in ((signal.SIGINT, "kernel.run@rank=1,step=5,n=1:delay=600s"), (signal.SIGTERM, "file.write@step=4:delay=600s")):
            out = self.dir / number.name
            process = self.start(*flags, steps=6, out=out, fault=fault)
            self.wait_for(lambda: (out / "step-4" if number == signal.SIGINT else out / "step-4.tmp/weights.safetensors").exists())
            self.wait_for(self.has_steps(4, out))
            process.send_signal(number)
            with self.assertRaises(subprocess.TimeoutExpired, msg="told once it finishes its step"):
                process.wait(timeout=0.5)
            began = time.time()
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=600), 128 + number)
            self.assertLess(time.time() - began, BY_ITSELF)
            code, _, err = self.train(*flags, "--resume", "auto", out=out, steps=6)
            self.assertEqual(code, 0, err)
            self.assertRegex(err, f"continuing after step {4 if number == signal.SIGINT else 2}")
            self.assertEqual((out / "final/weights.safetensors").read_bytes(), whole)
            self.assertEqual(list(out.glob("*.tmp")), [])

    def test_f52_a_device_that_is_lost(self):
        """As after an Xid, nothing that is enqueued is done any more: the job ends at once, and goes on from its last checkpoint."""
        flags = ("--lr-schedule", "constant", "--save-every", 2, "--device", "fake", "--quiet")
        self.succeeds(self.train(*flags, out="whole", steps=6))
        for rank in (0, 1):
            began, out = time.time(), f"lost{rank}"
            result = self.train(*flags, out=out, steps=6, env={"ZERO_FAULT": f"device.lost@rank={rank},step=5,n=1:EIO"})
            self.expect(7, f"the device of rank {rank} is lost(.|\n)*resume from the last checkpoint", result)
            self.assertEqual(result[2].count("error["), 1, "one root cause")
            self.assertLess(time.time() - began, BY_ITSELF)
            self.assertEqual(sorted(path.name for path in (self.dir / out).glob("*-*")), ["step-2", "step-4"])
            self.succeeds(self.train(*flags, "--resume", "auto", out=out, steps=6))
            self.assertEqual((self.dir / out / "final/weights.safetensors").read_bytes(), (self.dir / "whole/final/weights.safetensors").read_bytes())

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
                                        "--out", out, "--quiet"], stderr=subprocess.PIPE, text=True, env={**os.environ, "ZERO_FAULT": site + ":delay=5s"})
            self.addCleanup(process.kill)
            metrics, deadline = out / "metrics.jsonl", time.time() + 300
            while not (metrics.exists() and metrics.read_text().count("\n") == 2) and time.time() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 75, err)
            self.assertEqual(len(self.lines(site)), 3)
            self.assertTrue((out / "step-3/manifest.json").exists())


if __name__ == "__main__":
    main()
