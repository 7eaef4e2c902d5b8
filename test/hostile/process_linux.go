package hostile

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/fixture/process"
	"github.com/mcpvisor/mcpvisor/test/fixture/role"
)

// withChild serves correctly, except that do handles the calls. A child process runs
// child instead.
func withChild(name, about string, child func(*stdioServer), do func(*stdioServer, request)) Misbehaviour {
	return processOnly(handWritten(name, about, func(s *stdioServer) {
		if s.childRole != "" {
			child(s)
			return
		}
		s.handlers["tools/call"] = do
		s.serve()
	}))
}

// holdStreams runs in a child that ignores polite signals and stays.
func holdStreams(s *stdioServer) {
	process.IgnoreTermination()
	s.waitForever()
}

// handWrittenProcessOnly is a hand-written server that needs a process.
func handWrittenProcessOnly(name, about string, serve func(*stdioServer)) Misbehaviour {
	return processOnly(handWritten(name, about, serve))
}

// linuxRows are about processes and need Linux.
var linuxRows = []Misbehaviour{
	processOnly(scripted("process/grandchild", "Exits when the call arrives, while its child holds stdout and stderr open and ignores SIGTERM.",
		mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionForkGrandchild}, mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionExit, Code: 3})),
	processOnly(scripted("process/grandchild-detached", "Exits when the call arrives, while a child outside its process group holds stdout and stderr open and ignores SIGTERM.",
		mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionForkGrandchild, Text: "detached"}, mcptest.Fault{At: mcptest.StageCall, Tool: BadTool, Do: mcptest.ActionExit, Code: 3})),
	withChild("process/grandchild-answers", "Exits when the call arrives and lets its child write the answer.", func(s *stdioServer) {
		s.pause(5 * time.Millisecond)
		s.result(request{id: s.childRole}, fineResult)
		s.waitForever()
	}, func(s *stdioServer, r request) {
		_ = s.child(r.id).Start()
		s.exit(3)
	}),
	withChild("process/grandchild-detached-answers", "Exits when the call arrives and lets a child outside its process group write the answer and more.", func(s *stdioServer) {
		s.pause(20 * time.Millisecond)
		s.result(request{id: s.childRole}, fineResult)
		s.write("junk\n")
		s.waitForever()
	}, func(s *stdioServer, r request) {
		cmd := s.child(r.id)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
		s.exit(3)
	}),
	withChild("process/grandchild-stderr", "Exits when the call arrives, while its child holds only stderr open.", holdStreams, func(s *stdioServer, r request) {
		cmd := s.child("hold")
		cmd.Stdin, cmd.Stdout = nil, nil
		_ = cmd.Start()
		s.exit(3)
	}),
	withChild("process/grandchild-writes", "Starts a child that keeps writing junk to stdout while the server answers.", func(s *stdioServer) {
		for {
			if _, err := s.out.Write([]byte("tick\n")); err != nil {
				return
			}
			s.pause(time.Millisecond)
		}
	}, func(s *stdioServer, r request) {
		cmd := s.child("write")
		cmd.Stdin = nil
		_ = cmd.Start()
		s.answerWell(r)
	}),
	withChild("process/family", "Starts three children in sessions of their own for each call; all of them ignore SIGTERM.", holdStreams, func(s *stdioServer, r request) {
		for range 3 {
			cmd := s.child("hold")
			cmd.Stdin = nil
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			_ = cmd.Start()
		}
		s.answerWell(r)
	}),
	handWrittenProcessOnly("process/stops", "Stops itself with SIGSTOP when the call arrives, as Ctrl-Z does.", onCall(func(s *stdioServer, _ request) {
		// This thread may run for a moment after the signal.
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		s.waitForever()
	})),
	handWrittenProcessOnly("process/kills-group", "Kills its whole process group when the call arrives.", onCall(func(*stdioServer, request) { _ = unix.Kill(0, unix.SIGKILL) })),
	handWrittenProcessOnly("process/exec", "Answers the call and then replaces itself with another program under the same process id.", onCall(func(s *stdioServer, r request) {
		s.answerWell(r)
		_ = syscall.Exec(role.Executable(), os.Args[:1], append(os.Environ(), role.Env+"="+roleName))
	})),
	handWrittenProcessOnly("process/descriptors", "Opens a thousand files before it answers the call.", onCall(func(s *stdioServer, r request) {
		for range 1000 {
			_, _ = unix.Open(os.DevNull, unix.O_RDONLY, 0)
		}
		s.answerWell(r)
	})),
	handWrittenProcessOnly("process/nonblocking", "Makes stdout and stderr non-blocking, which the client's ends of the pipes must bear.", onCall(func(s *stdioServer, r request) {
		_, _ = unix.SetNonblock(1, true), unix.SetNonblock(2, true)
		s.answerWell(r)
	})),
	handWrittenProcessOnly("process/small-pipes", "Shrinks its three pipes to one page when it starts.", func(s *stdioServer) {
		for fd := range uintptr(3) {
			_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096)
		}
		s.serve()
	}),
	handWrittenProcessOnly("process/full-stdout", "Writes eight megabytes through a pipe of one page before the answer.", onCall(func(s *stdioServer, r request) {
		_, _ = unix.FcntlInt(1, unix.F_SETPIPE_SZ, 4096)
		s.write(repeated(repeated("x", 1000)+"\n", 8<<10))
		s.answerWell(r)
	})),
	handWrittenProcessOnly("process/title", "Erases its process name and its environment, which exposes clients that identify processes by them.", onCall(func(s *stdioServer, r request) {
		_ = unix.Prctl(unix.PR_SET_NAME, 0, 0, 0, 0)
		os.Clearenv()
		s.answerWell(r)
	})),
	handWrittenProcessOnly("shutdown/own-stdin", "Opens the write end of its own stdin, so it never sees stdin end.", func(s *stdioServer) {
		f, err := os.OpenFile("/proc/self/fd/0", os.O_WRONLY, 0)
		s.serve()
		if err == nil {
			_ = f.Close()
		}
	}),
	handWrittenProcessOnly("shutdown/own-stdout", "Reads its own stdout and writes to it forever when stdin is closed, so the pipe never fills.", atEnd(func(s *stdioServer) {
		if f, err := os.Open("/proc/self/fd/1"); err == nil {
			go func() { _, _ = io.Copy(io.Discard, f) }()
		}
		for {
			s.write("still here\n")
			s.pause(time.Millisecond)
		}
	})),
	handWrittenProcessOnly("shutdown/joins-our-group", "Moves into the process group of its parent and ignores stdin's end and SIGTERM, so a signal to its group hits the client.", func(s *stdioServer) {
		process.IgnoreTermination()
		if group, err := unix.Getpgid(os.Getppid()); err == nil {
			_ = unix.Setpgid(0, group)
		}
		s.serve()
		s.waitForever()
	}),
	handWrittenProcessOnly("shutdown/phoenix", "Answers each SIGTERM by starting a child that ignores SIGTERM, and does not exit.", func(s *stdioServer) {
		if s.childRole != "" {
			holdStreams(s)
			return
		}
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, unix.SIGTERM)
		s.serve()
		for range asked {
			_ = s.child("hold").Start()
		}
	}),
	handWrittenProcessOnly("shutdown/last-child", "Starts a child in a session of its own when stdin is closed, and exits.", func(s *stdioServer) {
		if s.childRole != "" {
			holdStreams(s)
			return
		}
		s.serve()
		cmd := s.child("hold")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
	}),
	handWrittenProcessOnly("shutdown/segfault", "Kills itself with SIGKILL when stdin is closed.", atEnd(func(*stdioServer) { _ = unix.Kill(os.Getpid(), unix.SIGKILL) })),
}
