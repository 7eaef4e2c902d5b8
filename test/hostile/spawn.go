package hostile

import (
	"os"
	"path/filepath"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/fixture/role"
)

// fileRow is a misbehaviour whose command is a file that cannot be executed.
func fileRow(name, about, content string, mode os.FileMode) Misbehaviour {
	return Misbehaviour{Name: name, About: about, Unstartable: true, command: func(dir string) (*mcpvisor.Stdio, error) {
		path := filepath.Join(dir, "server")
		err := os.WriteFile(path, []byte(content), 0o600)
		if err == nil {
			err = os.Chmod(path, mode)
		}
		return &mcpvisor.Stdio{Command: path}, err
	}}
}

// shellRow is a misbehaviour whose command is a shell command line. In it $0 is the
// current binary, which is a correct server.
func shellRow(name, about, line string) Misbehaviour {
	return Misbehaviour{Name: name, About: about, command: func(dir string) (*mcpvisor.Stdio, error) {
		return shellSpec(line, handWrittenProcess("spawn/good", dir)), nil
	}}
}

// shellSpec runs a shell command line with the command of server as $0.
func shellSpec(line string, server *mcpvisor.Stdio) *mcpvisor.Stdio {
	return &mcpvisor.Stdio{Command: "/bin/sh", Args: []string{"-c", line, server.Command}, Env: server.Env}
}

// spawnRows are about starting the process, before the first message.
var spawnRows = []Misbehaviour{
	{Name: "spawn/missing", About: "Does not exist.", Unstartable: true, command: func(dir string) (*mcpvisor.Stdio, error) {
		return &mcpvisor.Stdio{Command: filepath.Join(dir, "nothing")}, nil
	}},
	{Name: "spawn/not-in-path", About: "Does not exist in any directory of PATH.", Unstartable: true, command: func(string) (*mcpvisor.Stdio, error) {
		return &mcpvisor.Stdio{Command: "mcptest-no-such-server"}, nil
	}},
	{Name: "spawn/directory", About: "Is a directory instead of a program.", Unstartable: true, command: func(dir string) (*mcpvisor.Stdio, error) {
		return &mcpvisor.Stdio{Command: dir}, nil
	}},
	{Name: "spawn/no-working-directory", About: "Is to run in a directory that does not exist.", Unstartable: true,
		command: func(dir string) (*mcpvisor.Stdio, error) {
			return &mcpvisor.Stdio{Command: role.Executable(), Dir: filepath.Join(dir, "nothing")}, nil
		}},
	fileRow("spawn/not-executable", "Is a script without the permission to execute it.", "#!/bin/sh\nexit 0\n", 0o600),
	fileRow("spawn/no-interpreter", "Is a script whose interpreter does not exist.", "#!/nonexistent/python\n", 0o700),
	fileRow("spawn/no-shebang", "Is a script without an interpreter line.", "exit 0\n", 0o700),
	fileRow("spawn/truncated", "Is a truncated binary, as after an interrupted download.", "\x7fELF", 0o700),
	fileRow("spawn/empty", "Is an empty file.", "", 0o700),
	fileRow("spawn/dangling-interpreter", "Is a script with Windows line ends, so the interpreter's name ends in a carriage return.", "#!/bin/sh\r\nexit 0\r\n", 0o700),

	handWritten("spawn/good", "Behaves correctly, as a reference for the other servers.", func(s *stdioServer) { s.serve() }),
	shellRow("spawn/usage", "Prints its usage to stdout and exits with status 0.", "echo 'usage: server [--port n]'; exit 0"),
	shellRow("spawn/usage-2", "Prints its usage to stderr and exits with status 2.", "echo 'usage: server [--port n]' >&2; exit 2"),
	shellRow("spawn/not-found", "Starts a program that is not installed, so the shell exits with status 127.", "mcptest-no-such-server"),
	shellRow("spawn/no-key", "Reports on stderr that an API key is missing, and exits with status 1.", "echo 'fatal: HOSTILE_API_KEY is not set' >&2; exit 1"),
	shellRow("spawn/segfault", "Dies of SIGSEGV when it starts.", "ulimit -c 0; kill -s SEGV $$"),
	shellRow("spawn/killed", "Is killed by SIGKILL when it starts.", "kill -s KILL $$"),
	shellRow("spawn/silent", "Runs but neither reads nor writes.", "exec sleep 600"),
	shellRow("spawn/cat", "Is cat instead of a server and returns every request to the client.", "exec cat"),
	shellRow("spawn/yes", "Is yes instead of a server and writes the same line forever.", "exec yes"),
	shellRow("spawn/closed", "Closes stdin, stdout and stderr, but does not exit.", "exec <&- >&- 2>&-; sleep 600"),
	shellRow("spawn/wrapper", "Runs as the child of a shell that waits for it, as servers do under npx.", `"$0"; exit $?`),
	shellRow("spawn/pipeline", "Writes its output through another process of a shell pipeline.", `"$0" | cat`),
	shellRow("spawn/background", "Runs in the background, while the shell that started it exits with status 0.", `"$0" <&0 & exit 0`),
	shellRow("spawn/banner", "Prints a hundred lines of greeting to stdout before it serves.", `i=0; while [ $i -lt 100 ]; do echo "*** hostile $i {\"jsonrpc\": ***"; i=$((i+1)); done; exec "$0"`),
	shellRow("spawn/banner-unended", "Prints a greeting without a line feed, so its first answer continues that line.", `printf 'starting up... '; exec "$0"`),
	shellRow("spawn/slow", "Waits 300 milliseconds before it reads.", `sleep 0.3; exec "$0"`),
	handWritten("spawn/prompt", "Writes a prompt before each answer, as an interactive program does.", func(s *stdioServer) {
		s.out = prefixWriter{s.out, "hostile> "}
		s.serve()
	}),
	handWritten("spawn/http", "Writes an HTTP response to stdout instead of JSON-RPC.", func(s *stdioServer) {
		s.write("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nBad Request")
		s.waitForever()
	}),
	handWritten("spawn/framed", "Frames its messages with Content-Length headers, as language servers do.", func(s *stdioServer) {
		s.out = contentLengthWriter{s.out}
		s.serve()
	}),
	handWritten("spawn/stderr-only", "Writes its answers to stderr instead of stdout.", func(s *stdioServer) {
		s.out = nopCloser{s.errs}
		s.serve()
	}),
	handWritten("spawn/late-exit", "Exits after 100 milliseconds without having read or written anything.", func(s *stdioServer) {
		s.pause(100 * time.Millisecond)
		s.exit(7)
	}),
	handWritten("spawn/rude-exit", "Writes half a line to stdout and a thousand lines of binary data to stderr, and exits.", func(s *stdioServer) {
		s.write(`{"jsonrpc":"2.0","id":1,"res`)
		_, _ = s.errs.Write([]byte(repeated("\x1b[31mpanic: \x00\xff\x1b]0;title\a\n", 1000)))
		s.exit(8)
	}),
}
