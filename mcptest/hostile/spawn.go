package hostile

import (
	"os"
	"path/filepath"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/internal/role"
)

// file is a misbehaviour whose command is a file that cannot be executed.
func file(name, about, content string, mode os.FileMode) Misbehaviour {
	return Misbehaviour{Name: name, About: about, Unstartable: true, command: func(dir string) (*mcpvisor.Stdio, error) {
		path := filepath.Join(dir, "server")
		err := os.WriteFile(path, []byte(content), 0o600)
		if err == nil {
			err = os.Chmod(path, mode)
		}
		return &mcpvisor.Stdio{Command: path}, err
	}}
}

// shell is a misbehaviour whose command is a line of the shell. In it, $0 is the
// current binary, which is a good server.
func shell(name, about, line string) Misbehaviour {
	return Misbehaviour{Name: name, About: about, command: func(dir string) (*mcpvisor.Stdio, error) {
		return shellSpec(line, handWrittenProcess("spawn/good", dir)), nil
	}}
}

// shellSpec runs a line of the shell with the command of server as $0.
func shellSpec(line string, server *mcpvisor.Stdio) *mcpvisor.Stdio {
	return &mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", line, server.Command}, Env: server.Env}
}

// spawnRows are about starting the process, before the first message.
var spawnRows = []Misbehaviour{
	{Name: "spawn/missing", About: "Is not there.", Unstartable: true, command: func(dir string) (*mcpvisor.Stdio, error) {
		return &mcpvisor.Stdio{Command: filepath.Join(dir, "nothing")}, nil
	}},
	{Name: "spawn/not-in-path", About: "Is not in PATH.", Unstartable: true, command: func(string) (*mcpvisor.Stdio, error) {
		return &mcpvisor.Stdio{Command: "mcptest-no-such-server"}, nil
	}},
	{Name: "spawn/directory", About: "Is a directory.", Unstartable: true, command: func(dir string) (*mcpvisor.Stdio, error) {
		return &mcpvisor.Stdio{Command: dir}, nil
	}},
	{Name: "spawn/no-working-directory", About: "Wants to run in a directory that is not there.", Unstartable: true,
		command: func(dir string) (*mcpvisor.Stdio, error) {
			return &mcpvisor.Stdio{Command: role.Executable(), Dir: filepath.Join(dir, "nothing")}, nil
		}},
	file("spawn/not-executable", "Is a script without the permission to be executed.", "#!/bin/sh\nexit 0\n", 0o600),
	file("spawn/no-interpreter", "Is a script whose interpreter is not there.", "#!/nonexistent/python\n", 0o700),
	file("spawn/no-shebang", "Is a script that does not name its interpreter.", "exit 0\n", 0o700),
	file("spawn/truncated", "Is a program of which the download was cut off.", "\x7fELF", 0o700),
	file("spawn/empty", "Is an empty file.", "", 0o700),
	file("spawn/dangling-interpreter", "Is a script of Windows, whose interpreter ends in a carriage return.", "#!/bin/sh\r\nexit 0\r\n", 0o700),

	handWritten("spawn/good", "Does nothing wrong; the others are measured by it.", func(s *stdioServer) { s.serve() }),
	shell("spawn/usage", "Prints its usage on stdout and exits with status 0.", "echo 'usage: server [--port n]'; exit 0"),
	shell("spawn/usage-2", "Prints its usage on stderr and exits with status 2.", "echo 'usage: server [--port n]' >&2; exit 2"),
	shell("spawn/not-found", "Starts what is not installed, and exits with status 127.", "mcptest-no-such-server"),
	shell("spawn/no-key", "Exits with status 1 for want of an API key, and says so on stderr.", "echo 'fatal: HOSTILE_API_KEY is not set' >&2; exit 1"),
	shell("spawn/segfault", "Dies of a segmentation fault at once.", "ulimit -c 0; kill -s SEGV $$"),
	shell("spawn/killed", "Is killed at once.", "kill -s KILL $$"),
	shell("spawn/silent", "Runs, reads nothing and says nothing.", "exec sleep 600"),
	shell("spawn/cat", "Is not a server and gives back what it is sent.", "exec cat"),
	shell("spawn/yes", "Is not a server and writes the same line forever.", "exec yes"),
	shell("spawn/closed", "Closes its stdin, stdout and stderr, and lives.", "exec <&- >&- 2>&-; sleep 600"),
	shell("spawn/wrapper", "Is the child of a shell that does nothing but wait for it, as under npx.", `"$0"; exit $?`),
	shell("spawn/pipeline", "Has its output pass through another process.", `"$0" | cat`),
	shell("spawn/background", "Goes to the background, while the shell that started it exits with status 0.", `"$0" <&0 & exit 0`),
	shell("spawn/banner", "Prints a page of greetings before it serves.", `i=0; while [ $i -lt 100 ]; do echo "*** hostile $i {\"jsonrpc\": ***"; i=$((i+1)); done; exec "$0"`),
	shell("spawn/banner-unended", "Prints a greeting that no end of line divides from its first answer.", `printf 'starting up... '; exec "$0"`),
	shell("spawn/slow", "Takes a while before it reads anything.", `sleep 0.3; exec "$0"`),
	handWritten("spawn/prompt", "Writes a prompt in front of each answer, as an interactive program.", func(s *stdioServer) {
		s.out = prefixWriter{s.out, "hostile> "}
		s.serve()
	}),
	handWritten("spawn/http", "Speaks HTTP where JSON-RPC is due.", func(s *stdioServer) {
		s.write("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nBad Request")
		s.park()
	}),
	handWritten("spawn/framed", "Frames its messages by Content-Length, as language servers do.", func(s *stdioServer) {
		s.out = contentLengthWriter{s.out}
		s.serve()
	}),
	handWritten("spawn/stderr-only", "Mistakes stderr for stdout.", func(s *stdioServer) {
		s.out = nopCloser{s.errs}
		s.serve()
	}),
	handWritten("spawn/late-exit", "Says nothing, and exits after a moment.", func(s *stdioServer) {
		s.pause(100 * time.Millisecond)
		s.exit(7)
	}),
	handWritten("spawn/rude-exit", "Writes half a line and a lot on stderr, and exits.", func(s *stdioServer) {
		s.write(`{"jsonrpc":"2.0","id":1,"res`)
		_, _ = s.errs.Write([]byte(many("\x1b[31mpanic: \x00\xff\x1b]0;title\a\n", 1000)))
		s.exit(8)
	}),
}
