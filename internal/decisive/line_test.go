package decisive

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// TestLine_takes_the_cause_and_not_what_surrounds_it has what programs really write.
func TestLine_takes_the_cause_and_not_what_surrounds_it(t *testing.T) {
	for name, c := range map[string]struct {
		stderr string
		want   string
		weight Weight
	}{
		"node, a module that is missing": {`node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/x/server.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at Module._load (node:internal/modules/cjs/loader:1051:27)
    at Function.executeUserEntryPoint [as runMain] (node:internal/modules/run_main:173:12)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.17.0`, "Error: Cannot find module '/x/server.js'", Failure},
		"node, a package that is missing": {`node:internal/modules/esm/resolve:873
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /app/index.js
    at packageResolve (node:internal/modules/esm/resolve:873:9) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v22.3.0`, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /app/index.js", Failure},
		"node, a connection that is refused": {`(node:4711) [DEP0040] DeprecationWarning: The punycode module is deprecated. Please use a userland alternative instead.
(Use ` + "`node --trace-deprecation ...`" + ` to show where the warning was created)
node:net:1661
    const ex = new ExceptionWithHostPort(err, 'connect', address, port);
               ^

Error: connect ECONNREFUSED 10.0.0.1:443
    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1607:16) {
  errno: -111,
  code: 'ECONNREFUSED',
  syscall: 'connect',
  address: '10.0.0.1',
  port: 443
}`, "Error: connect ECONNREFUSED 10.0.0.1:443", Failure},
		"node, several errors in one": {`AggregateError [ECONNREFUSED]:
    at internalConnectMultiple (node:net:1118:18) {
  code: 'ECONNREFUSED',
  [errors]: [
    Error: connect ECONNREFUSED ::1:5432
        at createConnectionError (node:net:1648:14) {
      errno: -111,
    },
    Error: connect ECONNREFUSED 127.0.0.1:5432
        at createConnectionError (node:net:1648:14) {
      errno: -111,
    }
  ]
}`, "Error: connect ECONNREFUSED 127.0.0.1:5432", Failure},
		"node, a syntax error": {`/x/server.js:3
const a = ;
          ^

SyntaxError: Unexpected token ';'
    at wrapSafe (node:internal/modules/cjs/loader:1378:20)`, "SyntaxError: Unexpected token ';'", Failure},
		"node, no memory": {`<--- Last few GCs --->

[7:0x5c1e8a0]     1047 ms: Mark-Compact 34.2 (36.1) -> 33.8 (36.1) MB
<--- JS stacktrace --->

FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
----- Native stack trace -----

 1: 0xb8d12b node::OOMErrorHandler(char const*, v8::OOMDetails const&) [node]
 2: 0xf06250 v8::Utils::ReportOOMFailure [node]`, "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", Failure},
		"node, colours and a key": {`(node:9) Warning: The 'NO_COLOR' env is ignored due to the 'FORCE_COLOR' env being set.
(Use ` + "`node --trace-warnings ...`" + ` to show where the warning was created)
[31mError: BRAVE_API_KEY environment variable is required[39m`, "Error: BRAVE_API_KEY environment variable is required", Failure},
		"npm, no such package": {`npm error code E404
npm error 404 Not Found - GET https://npm.example.com/@x%2fnothing - Not found
npm error 404
npm error 404  '@x/nothing@*' is not in this registry.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git folder.
npm error A complete log of this run can be found in: /var/npm/.npm/_logs/2026-01-01T00_00_00_000Z-debug-0.log`, "npm error 404  '@x/nothing@*' is not in this registry.", Failure},
		"npm, no such version": {`npm ERR! code ETARGET
npm ERR! notarget No matching version found for left-pad@99.
npm ERR! notarget In most cases you or one of your dependencies are requesting
npm ERR! notarget a package version that doesn't exist.

npm ERR! A complete log of this run can be found in:
npm ERR!     /var/npm/.npm/_logs/x-debug-0.log`, "npm ERR! notarget No matching version found for left-pad@99.", Failure},
		"npm, no network": {`npm warn deprecated glob@7: old
npm error code ENOTFOUND
npm error syscall getaddrinfo
npm error errno ENOTFOUND
npm error network request to https://npm.example.com/x failed, reason: getaddrinfo ENOTFOUND npm.example.com
npm error network This is a problem related to network connectivity.
npm error network In most cases you are behind a proxy or have bad network settings.
npm error network
npm error network If you are behind a proxy, please make sure that the
npm error network 'proxy' config is set properly.  See: 'npm help config'
npm error A complete log of this run can be found in: /var/npm/x.log`, "npm error network request to https://npm.example.com/x failed, reason: getaddrinfo ENOTFOUND npm.example.com", Failure},
		"npm, no program in the package": {`npm error could not determine executable to run
npm error A complete log of this run can be found in: /x.log`, "npm error could not determine executable to run", Failure},
		"npm notices behind an error": {`Error: Please provide a path
npm notice
npm notice New major version of npm available! 10.8.2 -> 11.0.0
npm notice To update run: npm install -g npm@11.0.0`, "Error: Please provide a path", Failure},
		"python, a traceback": {`Traceback (most recent call last):
  File "/x/server.py", line 3, in <module>
    raise RuntimeError("x: y")
  File "/x/lib.py", line 9, in f
    import nothing
ModuleNotFoundError: No module named 'nothing'`, "ModuleNotFoundError: No module named 'nothing'", Failure},
		"python, a chain": {`Traceback (most recent call last):
  File "/x/a.py", line 1, in <module>
    d["K"]
    ~^^^^^
KeyError: 'K'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/a.py", line 3, in <module>
    main()
requests.exceptions.ConnectionError: HTTPConnectionPool(host='db', port=80): Max retries exceeded`, "requests.exceptions.ConnectionError: HTTPConnectionPool(host='db', port=80): Max retries exceeded", Failure},
		"python, a group": {`  + Exception Group Traceback (most recent call last):
  |   File "/x/a.py", line 3, in <module>
  |     anyio.run(main)
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/x/b.py", line 7, in main
    |     await c()
    | httpx.ConnectError: All connection attempts failed
    +------------------------------------`, "httpx.ConnectError: All connection attempts failed", Failure},
		"python, settings": {`Traceback (most recent call last):
  File "/x/a.py", line 3, in <module>
    Settings()
pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings
api_key
  Field required [type=missing, input_value={}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.7/v/missing`, "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings api_key Field required [type=missing, input_value={}, input_type=dict]", Failure},
		"python, no such script": {`python3: can't open file '/x/server.py': [Errno 2] No such file or directory`, `python3: can't open file '/x/server.py': [Errno 2] No such file or directory`, Complaint},
		"python, argparse": {`usage: server [-h] --root DIR
server: error: the following arguments are required: --root`, "server: error: the following arguments are required: --root", Failure},
		"python, logging": {`2026-01-02 03:04:05,678 - INFO - Starting server
2026-01-02 03:04:06,001 - ERROR - login failed for bob
2026-01-02 03:04:06,002 - INFO - bye`, "ERROR - login failed for bob", Failure},
		"click": {`Usage: server [OPTIONS]
Try 'server --help' for help.

Error: Missing option '--token'.`, "Error: Missing option '--token'.", Failure},
		"go, a panic": {`2026/01/02 15:04:05 listening on :80
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x45]

goroutine 1 [running]:
main.main()
	/x/main.go:4 +0x1d
created by main.run in goroutine 1
	/x/main.go:9 +0x2b
exit status 2`, "panic: runtime error: invalid memory address or nil pointer dereference", Failure},
		"go, log.Fatal":                {`2026/01/02 15:04:05 listen tcp :80: bind: address already in use`, "listen tcp :80: bind: address already in use", Complaint},
		"go, flag":                     {"flag provided but not defined: -x\nUsage of server:\n  -root string\n    \tthe required directory (default \".\")", "flag provided but not defined: -x", Complaint},
		"go, a map":                    {"fatal error: concurrent map writes\n\ngoroutine 7 [running]:\nmain.f(0xc000)\n\t/x/main.go:9 +0x2b", "fatal error: concurrent map writes", Failure},
		"cobra":                        {"Error: required flag(s) \"root\" not set\nUsage:\n  server [flags]\n\nFlags:\n  -h, --help   help for server\n      --root string   required: where\n", `Error: required flag(s) "root" not set`, Failure},
		"rust, a panic":                {"thread 'main' panicked at src/main.rs:4:5:\nconfig.toml is missing\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace", "config.toml is missing", Failure},
		"rust, an older panic":         {"thread 'main' panicked at 'no key', src/main.rs:4:5\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace", "thread 'main' panicked at 'no key', src/main.rs:4:5", Failure},
		"rust, clap":                   {"error: the following required arguments were not provided:\n  <ROOT>\n\nUsage: server <ROOT>\n\nFor more information, try '--help'.", "error: the following required arguments were not provided: <ROOT>", Failure},
		"java":                         {"Exception in thread \"main\" java.lang.IllegalStateException: cannot start\n\tat a.B.main(B.java:4)\nCaused by: java.net.ConnectException: Connection refused\n\tat a.C.f(C.java:9)\n\t... 3 more", "Caused by: java.net.ConnectException: Connection refused", Failure},
		"java, no jar":                 {"Error: Unable to access jarfile server.jar", "Error: Unable to access jarfile server.jar", Failure},
		"uv, no such package":          {"  × No solution found when resolving tool dependencies:\n  ╰─▶ Because nothing-at-all was not found in the package registry and you\n      require nothing-at-all, we can conclude that your requirements are\n      unsatisfiable.", "Because nothing-at-all was not found in the package registry and you require nothing-at-all, we can conclude that your requirements are unsatisfiable.", Failure},
		"uvx, progress first":          {"Installed 20 packages in 31ms\nerror: Failed to spawn: `server`\n  Caused by: No such file or directory (os error 2)", "error: Failed to spawn: `server`: No such file or directory (os error 2)", Failure},
		"rust, a chain":                {"Error: cannot read the configuration\n\nCaused by:\n    0: No such file or directory (os error 2)\n    1: x", "Error: cannot read the configuration: No such file or directory (os error 2)", Failure},
		"docker, no daemon":            {"docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?.\nSee 'docker run --help'.", "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?.", Failure},
		"docker, no such image":        {"Unable to find image 'x/nothing:latest' locally\ndocker: Error response from daemon: pull access denied for x/nothing, repository does not exist or may require 'docker login': denied: requested access to the resource is denied.\n\nRun 'docker run --help' for more information", "docker: Error response from daemon: pull access denied for x/nothing, repository does not exist or may require 'docker login': denied: requested access to the resource is denied.", Failure},
		"a shell":                      {"sh: 1: mcp-server-git: not found", "sh: 1: mcp-server-git: not found", Failure},
		"env":                          {"env: ‘node’: No such file or directory", "env: ‘node’: No such file or directory", Failure},
		"usage alone":                  {"Usage: mcp-server-filesystem [allowed-directory] [additional-directories...]", "Usage: mcp-server-filesystem [allowed-directory] [additional-directories...]", Complaint},
		"usage and options":            {"Please name a directory.\nUsage: server DIR\n\nOptions:\n  --version  Show version number\n  --missing  What to do about missing files", "Please name a directory.", Plain},
		"a JSON log":                   {`{"level":30,"time":1,"msg":"hello"}` + "\n" + `{"level":50,"time":2,"msg":"no database","err":{"message":"connect ECONNREFUSED"}}`, "no database: connect ECONNREFUSED", Failure},
		"a JSON log with words":        {`{"level":"error","ts":"x","msg":"cannot listen"}`, "cannot listen", Failure},
		"a time and a level":           {"[2026-01-02T03:04:05.678Z] [ERROR] the token has expired", "[ERROR] the token has expired", Failure},
		"node, a file that is missing": {"node:internal/modules/esm/resolve:283\n    throw new ERR_MODULE_NOT_FOUND(\n          ^\n\nError [ERR_MODULE_NOT_FOUND]: Cannot find module 'file:///x/a.js' imported from /x/b.js\n    at finalizeResolution (node:internal/modules/esm/resolve:283:11)", "Error [ERR_MODULE_NOT_FOUND]: Cannot find module 'file:///x/a.js' imported from /x/b.js", Failure},
		"words like those of frames":   {"at least one directory is required", "at least one directory is required", Complaint},
		"plain words":                  {"missing API_KEY", "missing API_KEY", Complaint},
		"the last of plain ones":       {"one\ntwo", "two", Plain},
		"progress only":                {"Downloading numpy (16.1MiB)\n 37% ████\nSecure MCP Filesystem Server running on stdio", "Secure MCP Filesystem Server running on stdio", Progress},
		"colours only":                 {"(node:9) Warning: The 'NO_COLOR' env is ignored due to the 'FORCE_COLOR' env being set.", "", None},
		"nothing":                      {"", "", None},
		"brackets":                     {"}\n^\n---", "", None},
		"an array in a message":        {"rate[5m] is unknown", "rate[5m] is unknown", Complaint},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for line := range strings.SplitSeq(c.stderr, "\n") {
				if line = strings.TrimSpace(line); line != "" { // as package process keeps them
					lines = append(lines, line)
				}
			}
			got, w := Line(lines)
			require.Equal(t, c.want, got)
			require.Equal(t, c.weight, w)
		})
	}
}

func FuzzLine_is_one_bounded_line(f *testing.F) {
	for _, s := range []string{"Error: x", "usage: a\nb:\n", "╰─▶ a\nb", "{\"msg\":\"\\u001b[31mx\\nError: y\"}", "a\x1b[", "\xff[31m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, w := Line(strings.Split(s, "\n"))
		require.LessOrEqual(t, len(got), maxLine)
		require.Equal(t, w == None, got == "")
		require.False(t, strings.ContainsFunc(got, unicode.IsControl), "%q", got)
	})
}

func TestLead_begins_with_the_line(t *testing.T) {
	one := 1
	exit := func(message string, stderr ...string) *supervisor.Cause {
		return &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &one, Message: message, Stderr: stderr}
	}
	const ended = "server process ended with exit status 1"
	for name, c := range map[string]struct {
		cause    *supervisor.Cause
		starting bool
		want     string
	}{
		"an exit":                          {exit(ended, "Error: no key"), true, "Error: no key (exit status 1)"},
		"an exit, and stdout":              {exit(`the server wrote to its stdout what is not JSON-RPC: "hello" (x); `+ended, "Error: no key"), true, `Error: no key (exit status 1); the server wrote to its stdout what is not JSON-RPC: "hello" (x)`},
		"an exit at the start, plain":      {exit(ended, "goodbye"), true, "goodbye (exit status 1)"},
		"an exit, plain":                   {exit(ended, "goodbye"), false, ended},
		"an exit, a complaint":             {exit(ended, "out of memory"), false, "out of memory (exit status 1)"},
		"progress":                         {exit(ended, "Server running on stdio"), true, ended},
		"no line":                          {exit(ended), true, ended},
		"killed by another program":        {&supervisor.Cause{Kind: supervisor.CauseSignal, Signal: "killed", Message: "server process was ended by signal: killed", Stderr: []string{"Error: x"}}, false, "server process was ended by signal: killed"},
		"aborted":                          {&supervisor.Cause{Kind: supervisor.CauseSignal, Signal: "aborted", Message: "server process was ended by signal: aborted", Stderr: []string{"FATAL ERROR: heap"}}, false, "FATAL ERROR: heap (signal: aborted)"},
		"a timeout":                        {&supervisor.Cause{Kind: supervisor.CauseTimeout, Message: "too late; raise it", Stderr: []string{"Error: connect ECONNREFUSED"}}, true, "Error: connect ECONNREFUSED; too late; raise it"},
		"a timeout, plain":                 {&supervisor.Cause{Kind: supervisor.CauseTimeout, Message: "too late", Stderr: []string{"Please wait"}}, true, "too late"},
		"a permanent cause":                {&supervisor.Cause{Kind: supervisor.CauseVersion, Permanent: true, Message: "no version in common", Stderr: []string{"Error: x"}}, true, "no version in common"},
		"a probe":                          {&supervisor.Cause{Kind: supervisor.CauseProbe, Message: "deaf", Stderr: []string{"Error: x"}}, false, "deaf"},
		"a text that has the line already": {exit(ended+": Error: x", "Error: x"), true, ended + ": Error: x"},
		"a request of the host":            {&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "unregistered", Stderr: []string{"Error: x"}}, false, "unregistered"},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.cause.Message
			require.Equal(t, c.want, Lead(c.cause, c.starting).Message)
			require.Equal(t, before, c.cause.Message, "the given cause is not changed")
		})
	}
	require.Nil(t, Lead(nil, true))
}
