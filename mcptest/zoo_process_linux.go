package mcptest

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// withChild serves well, save for do; a child of the process does as its part
// says instead.
func withChild(name, about string, part func(*creature), do func(*creature, question)) Misbehaviour {
	return alone(wild(name, about, func(c *creature) {
		if c.part != "" {
			part(c)
			return
		}
		c.on["tools/call"] = do
		c.serve()
	}))
}

// hold is the part of a child that ignores polite signals, and stays.
func hold(c *creature) {
	ignoreTermination()
	c.park()
}

func lone(name, about string, serve func(*creature)) Misbehaviour {
	return alone(wild(name, about, serve))
}

// unixZoo is what a process on Linux can do.
var unixZoo = []Misbehaviour{
	alone(scripted("process/grandchild", "Exits at the call, while a child of its own holds stdout and stderr and ignores SIGTERM.",
		Fault{At: StageCall, Tool: ZooBad, Do: ActionForkGrandchild}, Fault{At: StageCall, Tool: ZooBad, Do: ActionExit, Code: 3})),
	alone(scripted("process/grandchild-detached", "Exits at the call, while a child that has left the process group holds stdout and stderr and ignores SIGTERM.",
		Fault{At: StageCall, Tool: ZooBad, Do: ActionForkGrandchild, Text: "detached"}, Fault{At: StageCall, Tool: ZooBad, Do: ActionExit, Code: 3})),
	withChild("process/grandchild-answers", "Exits at the call, and leaves the answer to a child.", func(c *creature) {
		c.rest(5 * time.Millisecond)
		c.result(question{id: c.part}, fine)
		c.park()
	}, func(c *creature, q question) {
		_ = c.child(q.id).Start()
		c.end(3)
	}),
	withChild("process/grandchild-detached-answers", "Exits at the call, and leaves the answer, and more, to a child that has left the process group.", func(c *creature) {
		c.rest(20 * time.Millisecond)
		c.result(question{id: c.part}, fine)
		c.write("junk\n")
		c.park()
	}, func(c *creature, q question) {
		cmd := c.child(q.id)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
		c.end(3)
	}),
	withChild("process/grandchild-stderr", "Exits at the call, while a child of its own holds stderr only.", hold, func(c *creature, q question) {
		cmd := c.child("hold")
		cmd.Stdin, cmd.Stdout = nil, nil
		_ = cmd.Start()
		c.end(3)
	}),
	withChild("process/grandchild-writes", "Has a child of its own write rubbish to stdout while it serves.", func(c *creature) {
		for {
			if _, err := c.out.Write([]byte("tick\n")); err != nil {
				return
			}
			c.rest(time.Millisecond)
		}
	}, func(c *creature, q question) {
		cmd := c.child("write")
		cmd.Stdin = nil
		_ = cmd.Start()
		c.behave(q)
	}),
	withChild("process/family", "Has a child in a session of its own for each call, all of which ignore SIGTERM.", hold, func(c *creature, q question) {
		for range 3 {
			cmd := c.child("hold")
			cmd.Stdin = nil
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			_ = cmd.Start()
		}
		c.behave(q)
	}),
	lone("process/stops", "Stops itself at the call, as by a terminal's Ctrl-Z.", atCall(func(c *creature, _ question) {
		// The thread that says so may run on for a moment.
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		c.park()
	})),
	lone("process/kills-group", "Kills its whole process group at the call.", atCall(func(*creature, question) { _ = unix.Kill(0, unix.SIGKILL) })),
	lone("process/exec", "Answers the call, and then becomes another program in the same process.", atCall(func(c *creature, q question) {
		c.behave(q)
		_ = syscall.Exec(currentBinary(), os.Args[:1], append(os.Environ(), envRole+"="+roleZoo))
	})),
	lone("process/descriptors", "Opens a thousand files at the call.", atCall(func(c *creature, q question) {
		for range 1000 {
			_, _ = unix.Open(os.DevNull, unix.O_RDONLY, 0)
		}
		c.behave(q)
	})),
	lone("process/nonblocking", "Makes its ends of the pipes non-blocking.", atCall(func(c *creature, q question) {
		_, _ = unix.SetNonblock(1, true), unix.SetNonblock(2, true)
		c.behave(q)
	})),
	lone("process/small-pipes", "Shrinks the pipes to one page at its start.", func(c *creature) {
		for fd := range uintptr(3) {
			_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096)
		}
		c.serve()
	}),
	lone("process/full-stdout", "Writes eight megabytes through a pipe of one page before the answer.", atCall(func(c *creature, q question) {
		_, _ = unix.FcntlInt(1, unix.F_SETPIPE_SZ, 4096)
		c.write(many(many("x", 1000)+"\n", 8<<10))
		c.behave(q)
	})),
	lone("process/title", "Writes its name over its arguments and its environment, as far as it can.", atCall(func(c *creature, q question) {
		_ = unix.Prctl(unix.PR_SET_NAME, 0, 0, 0, 0)
		os.Clearenv()
		c.behave(q)
	})),
	lone("shutdown/own-stdin", "Holds the other end of its stdin, too, and so never sees it end.", func(c *creature) {
		f, err := os.OpenFile("/proc/self/fd/0", os.O_WRONLY, 0)
		c.serve()
		if err == nil {
			_ = f.Close()
		}
	}),
	lone("shutdown/own-stdout", "Holds the other end of its stdout, too, and writes for ever when it is asked to end.", atEnd(func(c *creature) {
		if f, err := os.Open("/proc/self/fd/1"); err == nil {
			go func() { _, _ = io.Copy(io.Discard, f) }()
		}
		for {
			c.write("still here\n")
			c.rest(time.Millisecond)
		}
	})),
	lone("shutdown/joins-our-group", "Moves to the process group of its host, and ends neither when its stdin does nor by SIGTERM.", func(c *creature) {
		ignoreTermination()
		if group, err := unix.Getpgid(os.Getppid()); err == nil {
			_ = unix.Setpgid(0, group)
		}
		c.serve()
		c.park()
	}),
	lone("shutdown/phoenix", "Starts a child that ignores SIGTERM whenever it gets one, and lives on.", func(c *creature) {
		if c.part != "" {
			hold(c)
			return
		}
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, unix.SIGTERM)
		c.serve()
		for range asked {
			_ = c.child("hold").Start()
		}
	}),
	lone("shutdown/last-child", "Starts a child in a session of its own when its stdin ends, and exits.", func(c *creature) {
		if c.part != "" {
			hold(c)
			return
		}
		c.serve()
		cmd := c.child("hold")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
	}),
	lone("shutdown/segfault", "Dies of a signal when its stdin ends.", atEnd(func(*creature) { _ = unix.Kill(os.Getpid(), unix.SIGKILL) })),
}
