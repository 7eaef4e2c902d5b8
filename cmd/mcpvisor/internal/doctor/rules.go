package doctor

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/decisive"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// A rule says what to do about a failure that one line tells. says is a template with the
// groups of the pattern as in [regexp.Regexp.Expand], and with {program}, what starts the server
// without its arguments, {commandline}, with all of them, and {package}, what npx or uvx runs.
//
// Patterns are those of package regexp, which take time in proportion to the line.
type rule struct {
	name    string
	pattern string
	says    string
	// kinds are the kinds of causes that the rule is about; empty for all.
	kinds []string
	// progress: log lines that report no fault are looked at as well.
	progress bool
	// when is a further condition; nil for none.
	when func(*failure) bool

	compiled *regexp.Regexp
}

// rules are tried in this order, each on all lines. The first one that matches counts: what
// names its object stands before what guesses.
var rules = []rule{
	{name: "line-end", pattern: `without a line end to its stdout`,
		says: `it ends its messages without a line feed, so none is complete: it must write "\n" behind each, as println does, and flush`},
	// Package runners.
	{name: "npm-package", pattern: `^npm (?:error|ERR!) 404 .*'(@?[\w./-]+)@[^']*' (?:could not be found|is not in)`,
		says: `npm has no such package, or you may not read it: correct "$1" in "args"; npm search $1 finds names`},
	{name: "npm-version", pattern: `No matching version found for (@?[^@\s]+)@(\S+?)\.?$`,
		says: `npm has no version $2 of $1: correct it in "args"; npm view $1 versions lists them`},
	{name: "npx-asks", pattern: `^(?:npm (?:error|ERR!) )?npx canceled due to missing packages and no YES option`,
		says: `npx asks before it installs the package: add "-y" to the beginning of "args"`},
	{name: "npm-network", pattern: `^npm (?:error|ERR!) (?:code (?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT)|network )`,
		says: `npm does not reach its registry: check the network and the proxy; try: npm ping`},
	{name: "npm-login", pattern: `^npm (?:error|ERR!) code E40[13]`, says: `npm's registry refuses this user: try npm whoami, then npm login`},
	{name: "npm-command", pattern: `^npm (?:error|ERR!) could not determine executable to run`,
		says: `the package {package} has no command, so it is a library or has several: correct the name, or write "args": ["-y", "--package", "{package}", "COMMAND"]; npm view {package} bin lists its commands`},
	{name: "npm-script", pattern: `^npm (?:error|ERR!) Missing script: "([^"]*)"`, says: `package.json has no script "$1": correct the name, or "cwd"; npm run lists the scripts`},
	{name: "npm-directory", pattern: `^npm (?:error|ERR!) enoent Could not read package\.json`, says: `npm took a name for a directory, or there is no package.json: correct the package in "args", or "cwd"`},
	{name: "uv-package", pattern: `(?:Because|because) (\S+) was not found in the package registry`, says: `there is no such Python package: correct "$1" in "args"`},

	// Containers.
	{name: "docker-stopped", pattern: `Cannot connect to the Docker daemon|[Dd]ocker daemon is not running|docker_engine: The system cannot find`, says: `docker is not running: start it; try: docker info`},
	{name: "docker-permission", pattern: `permission denied while trying to connect to the [Dd]ocker daemon`, says: `this user may not use docker: add it to the group "docker" and log in again; try: docker info`},
	{name: "docker-image", pattern: `pull access denied for ([^\s,]+)|manifest for (\S+) not found`, says: `there is no such image, or you may not read it: correct "$1$2" in "args"; try: docker pull $1$2`},

	// Programs that are not there.
	{name: "install-uv", pattern: `command "(?:\S*/)?(uvx?)" not found`, says: `install uv, which brings uvx, or give the full path in "command"; try: uv --version`},
	{name: "install-node", pattern: `command "(?:\S*/)?(npx|npm|node)" not found`, says: `install Node.js, which brings $1, or give the full path in "command"; try: node --version`},
	{name: "install-docker", pattern: `command "(?:\S*/)?(docker|podman)" not found`, says: `install $1, or give the full path in "command"; try: $1 info`},
	{name: "install-python", pattern: `command "(?:\S*/)?(python3?|pipx)" not found`, says: `install Python, or give the full path in "command"; it may be called python3; try: python3 --version`},
	{name: "install-bun", pattern: `command "(?:\S*/)?(bunx?|deno)" not found`, says: `install it, or give the full path in "command"; try: $1 --version`},
	{name: "not-executable", pattern: `command "([^"]+)" may not be executed`, says: `make it executable: chmod +x $1`},
	{name: "interpreter", pattern: `command "([^"]+)" names an interpreter in its first line that was not found`,
		says: `correct the first line of $1; if the file has line ends of Windows, try: sed -i 's/\r$$//' $1`},
	{name: "shell-command", pattern: `^(?:\S*/)?(?:ba|z|da|a)?sh: (?:line )?(?:\d+: )?(\S+): (?:command )?not found|spawn (\S+) ENOENT|env: ['"‘]?([^\s'"’]+)['"’]?: No such file`,
		says: `$1$2$3 is not installed, or not in the PATH of the server: install it, or write its full path; try: command -v $1$2$3`},
	{name: "shell-directory", pattern: `: cd: (\S+): No such file or directory`, says: `there is no directory $1: correct it; better, write it as "cwd" of the entry`},

	// Packages and files of runtimes.
	{name: "node-builtin", pattern: `No such built-in module: (node:\S+)|ERR_UNKNOWN_BUILTIN_MODULE`,
		says: `it wants a newer Node.js{engine}: install that, or write its full path as "command"; try: node --version`},
	{name: "native-part", pattern: `Cannot find module '[^']*\.node'|Could not locate the bindings file|ERR_DLOPEN_FAILED|NODE_MODULE_VERSION|was compiled against a different Node`,
		says: `a compiled part of the package is missing, or is made for another Node.js: install it again with its install scripts; try, in its directory: npm rebuild`},
	{name: "package-broken", pattern: `Cannot find (?:module|package) '[^']*' imported from \S*node_modules|Cannot find module '[^']*node_modules[^']*'`,
		says: `the package is not complete, or does not fit its dependencies: try another version; npm view {package} versions lists them`},
	{name: "node-script", pattern: `Cannot find module '((?:/|\.|[A-Za-z]:\\)[^']*)'`, says: `there is no file $1: correct the path in "args"; relative paths begin at "cwd"`},
	{name: "node-module", pattern: `Cannot find (?:module|package) '([^'./\\][^']*)'`, says: `its dependency $1 is not installed; try, in the server's directory: npm install`},
	{name: "python-module", pattern: `No module named '?([A-Za-z_]\w*)`,
		says: `this Python has no module $1: install it, or write the python of its virtual environment as "command"; try: {python} -m pip install $1`},
	{name: "python-script", pattern: `can't open file '([^']+)'`, says: `there is no file $1: correct the path in "args"; relative paths begin at "cwd"`},
	{name: "json", pattern: `SyntaxError: .*\bJSON\b|json\.decoder\.JSONDecodeError`, says: `a file or a variable that it reads is not valid JSON: correct that`},
	{name: "syntax", pattern: `^(?:SyntaxError|IndentationError|TabError): `, says: `the script cannot be read: correct it, or start it with a newer version; try: {checker}`},
	{name: "runtime-version", pattern: `(?i)node(?:\.js)?(?: version)? (?:v|>=? ?)?(\d+)\S* or (?:higher|later|newer|above)`, says: `it wants Node.js $1 or later: install that, or write its full path as "command"; try: node --version`},
	{name: "memory", pattern: `heap out of memory`, says: `it ran out of memory: add "env": {"NODE_OPTIONS": "--max-old-space-size=4096"}`},

	// Files and addresses.
	{name: "place-file", pattern: `(?i)please place (\S+) in (.+)`, says: `put the file $1 into $2`},
	{name: "directory", progress: true, pattern: `(?i)(?:cannot access directory|(?:directory|folder|path) does not exist:?) ['"]?([^\s'",]+)`, says: `there is no directory $1, or it may not be read: correct it in "args"; try: ls -d $1`},
	{name: "port", pattern: `EADDRINUSE: address already in use (\S+)|bind: address already in use|Address already in use`, says: `another program has the address $1: end it, or give the server another port; try: ss -ltnp`},
	{name: "refused", pattern: `(?:ECONNREFUSED|dial tcp) ((?:\[[^\]]*\]|[^\s:]+):\d+)`, says: `nothing listens at $1: start the service that the server needs, or correct its address in "env" or "args"`},
	{name: "refused-somewhere", pattern: `ECONNREFUSED|[Cc]onnection refused`, says: `a service that the server needs does not listen: start it, or correct its address in "env" or "args"`},
	{name: "host", pattern: `getaddrinfo (?:ENOTFOUND|EAI_AGAIN) (\S+)|lookup (\S+?)(?: on \S+)?: no such host`, says: `the host name $1$2 cannot be resolved: correct it, or check the network; try: getent hosts $1$2`},
	{name: "host-somewhere", pattern: `Name or service not known|Temporary failure in name resolution|nodename nor servname`, says: `a host name cannot be resolved: correct the address that the server has, or check the network`},
	{name: "fetch", pattern: `TypeError: fetch failed`, says: `it does not reach an address that it needs: check the network, the proxy, and the address in "env" or "args"`},

	// Settings.
	{name: "run-first", pattern: `(?i)run with '([\w-]+)' argument first`, says: `run it once by hand, to log in: {program} $1`},
	{name: variableRule, pattern: variablePattern, says: ``},
	{name: "python-variable", pattern: `^KeyError: '([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)'`, says: `add "env": {"$1": "$${$1}"}, and set $1 before mcpvisor starts`},
	{name: "export", pattern: `\bexport ([A-Z][A-Z0-9_]*)=`, says: `add "env": {"$1": "$${$1}"}, and set $1 before mcpvisor starts`},
	{name: "permission", pattern: `(?:EACCES: permission denied, \w+|PermissionError: .*?:|open \S+: permission denied) ?'?([^'\s]*)`, says: `it may not use $1: correct the owner or the mode; try: ls -ld $1`},
	{name: "file", pattern: `(?:ENOENT: no such file or directory, \w+|FileNotFoundError: .*?:) '([^']+)'`, says: `it looks for $1, which is not there: create it, or correct the path; relative paths begin at "cwd"`},
	{name: "flag", pattern: `(?i)(?:unknown|unrecognized|unexpected|bad|invalid|no such) (?:option|flag|arguments?):? ['"]?(-[\w-]+)`, says: `it does not know $1: correct "args"; try: {program} --help`},
	{name: "argument", pattern: `(?i)(?:missing (?:required )?(?:arguments?|options?)|arguments? (?:is|are) required|required options?):? ['"]?(--?[\w-]+)`, says: `it wants the argument $1: add "$1" and its value to "args"; try: {program} --help`},
	{name: "count", pattern: `(?i)(?:invalid|wrong|incorrect) number of arguments`, says: `it wants more arguments, or fewer: correct "args"; try: {program} --help`},
	{name: "no-address", pattern: `TypeError(?: \[\w+\])?: Invalid URL`, says: `an address that it needs is missing, or is no URL: look it up in its documentation, and add it to "env" or "args"{documentation}`},
	{name: "insecure-url", pattern: `(?i)non-https URLs? (?:are|is) only allowed`, says: `write https:// in the address; or add "--allow-http" to "args" if the network is trusted`},
	{name: "bad-address", pattern: `(?i)URL must start with (.+)`, says: `correct the address in "args" or "env": it must begin with $1`},
	{name: "unsupported", pattern: `(?i)unsupported (?:database type|scheme|protocol)[^:]*: *(\S+)`, says: `it does not support $1: correct the address in "args" or "env"`},
	{name: "positional", pattern: `(?i)(?:provide|specify|give) (?:an? |the )?(.{1,60}?) (?:as|via) (?:an? |the )?(?:command[- ]line )?argument`, says: `it wants an argument: add the $1 to "args"`},
	{name: "serves-http", pattern: `(?i)(?:listening|running|server) (?:on|at) (https?://[^\s"]+|port \d+)`, kinds: []string{"timeout"}, progress: true,
		says: `it serves HTTP ($1), and not stdio: give it the argument for stdio, often --stdio; or start it yourself, and write its address as "url"`},
	{name: "usage", pattern: `^\W*(?:\[?\d*\]? *)(?:(?i:usage):|USAGE\b)`, says: `it printed its usage, so it wants an argument: {usage}`},
	{name: "credentials", pattern: `(?i)(?:invalid|bad|incorrect|expired|wrong) (?:api[ _-]?key|access token|token|credentials?|password)|authentication failed|401 unauthorized`, says: `its credentials were rejected: renew them in "env"`},
	{name: "some-variable", pattern: `(?i)environment variables? (?:are |is )?(?:not set|missing|required|not defined)`, says: `it wants environment variables that it does not name: look them up in its documentation, and add them to "env"{documentation}`},
	{name: "some-setting", pattern: `(?i)\b(?:is required|cannot be empty|not configured|must be (?:set|provided)|not provided|must be a non-empty|no \S+ (?:specified|configured|provided))\b`,
		says: `it lacks a setting: look it up in its documentation, and add it to "env" or "args"{documentation}`},
	{name: "wrote-nothing", pattern: `^server process ended with exit status [1-9]\d*$`, when: (*failure).silent,
		says: `it wrote nothing: look its settings up in its documentation, and run it by hand: {commandline}{documentation}`},
	{name: "not-a-server", pattern: `^server process ended with exit status 0; it ended before the handshake without output`,
		says: `it wrote nothing and ended: it may be the wrong command, or it wants an argument that makes it a server; try: {program} --help`},
	{name: "installing", pattern: `^(\S+) has not started the server in time`, kinds: []string{"timeout"},
		says: `$1 was still installing the package, as on a busy machine or with a slow network: try again, install it by hand first, or raise "timeouts": {"start": "5m"}`},
	{name: "silent", pattern: `^server did not finish the handshake in time`, kinds: []string{"timeout"}, when: (*failure).silent,
		says: `the server has written nothing yet: if it is only slow to start, raise "timeouts": {"start": "2m"}; otherwise it may be no MCP server over stdio: {program} --help`},
	{name: "question", pattern: `\(it asks a question and waits`, says: `start it so that it does not ask, as with npx -y; or give it the answer in "args" or "env"; try: {program} --help`},
	{name: "prints-and-ends", pattern: `what is not JSON-RPC: .*exit status 0`,
		says: `it printed a text and ended, so it is not an MCP server, or wants an argument that makes it one; try: {program} --help`},
	{name: "killed", pattern: `ended by signal: killed$`, kinds: []string{"signal"},
		says: `it was killed from outside, often because memory ran out: look at the log of the kernel (dmesg), and at the memory limit of its container or service`},
	{name: "by-hand", pattern: `.`, kinds: []string{"exit", "signal"}, says: `run the command by hand and read its stderr: {commandline}`},
}

// compiledRules returns the table with its patterns compiled, when the first failure is explained.
var compiledRules = sync.OnceValue(func() []rule {
	all := slices.Clone(rules)
	for i := range all {
		all[i].compiled = regexp.MustCompile(all[i].pattern)
	}
	return all
})

// failure is what the rules look at.
type failure struct {
	kind    string
	message string   // of the cause
	stderr  []string // as the server wrote it
	command string   // empty for a remote server
	args    []string
	has     func(variable string) bool // whether the server gets a variable
}

const (
	maxLine      = 1000 // bytes of a line that are looked at
	maxLines     = 200
	maxUsageText = 200 // bytes of a usage text that are shown
)

// prescribe returns what to do about a failure, and the name of the rule; "" if no rule knows.
func (f *failure) prescribe() (advice, name string) {
	lines := f.lines()
	for _, r := range compiledRules() {
		if len(r.kinds) > 0 && !slices.Contains(r.kinds, f.kind) || r.when != nil && !r.when(f) {
			continue
		}
		for i, line := range lines {
			if isProgress(line) && !r.progress {
				continue
			}
			match := r.compiled.FindStringSubmatchIndex(line)
			if match == nil {
				continue
			}
			if r.name == variableRule {
				if advice := f.variablesAdvice(line); advice != "" {
					return advice, r.name
				}
				continue
			}
			says := string(r.compiled.ExpandString(nil, r.says, line, match))
			return f.fill(says, lines[i:]), r.name
		}
	}
	return "", ""
}

// strayText finds the beginning of stdout in a cause.
var strayText = regexp.MustCompile(`what is not JSON-RPC: ("(?:[^"\\]|\\.)*")`)

// silent reports whether the server itself wrote nothing: what npm warns of does not count.
func (f *failure) silent() bool { return len(f.lines()) == 1 }

// isProgress reports whether a line is of a log, and reports no fault that ends a program.
func isProgress(line string) bool {
	lower := strings.ToLower(line[:min(len(line), 8)])
	for _, level := range []string{"info ", "info:", "[info]", "debug ", "debug:", "[debug]", "trace ", "warn", "[warn"} {
		if strings.HasPrefix(lower, level) {
			return true
		}
	}
	return false
}

// lines returns what the server wrote, the line first that says best why it failed, without what never tells a cause: frames of stacks, and
// warnings of runtimes.
func (f *failure) lines() (lines []string) {
	add := func(text string) {
		text = strings.TrimSpace(display.Line(display.WithoutColors(display.Prefix(text, maxLine))))
		lower := strings.ToLower(text)
		for _, noise := range []string{"at ", "npm warn", "npm notice", "npm http", "file \"", "throw ", "(node:", "(use `node"} {
			if strings.HasPrefix(lower, noise) {
				return
			}
		}
		if text != "" {
			lines = append(lines, text)
		}
	}
	message := display.Prefix(f.message, 4*maxLine)
	if text, weight := decisive.Line(f.stderr); weight >= decisive.Complaint {
		add(text)
	}
	if m := strayText.FindStringSubmatch(message); m != nil {
		if text, err := strconv.Unquote(m[1]); err == nil {
			add(text)
		}
	}
	for i, line := range f.stderr {
		if i < maxLines/2 || i >= len(f.stderr)-maxLines/2 { // the error is at the beginning or at the end
			add(line)
		}
	}
	add(message)
	return lines
}

// fill replaces what braces name. rest are the line that matched and those that follow.
func (f *failure) fill(says string, rest []string) string {
	pkg := f.pkg()
	documentation := ""
	if pkg != "" && f.runner() == "npx" {
		documentation = "; npm docs " + pkg + " opens it"
	}
	usage := rest[0]
	for _, word := range []string{"Usage", "usage", "USAGE"} { // a process id may stand before it
		if at := strings.Index(usage, word); at > 0 {
			usage = usage[at:]
		}
	}
	if strings.HasSuffix(usage, ":") && len(rest) > 1 {
		usage += " " + rest[1]
	}
	python, checker := "python3", f.command+" --version"
	switch base := f.runner(); {
	case strings.HasPrefix(base, "python"):
		python, checker = f.command, f.command+" -m py_compile "+f.script()
	case base == "node":
		checker = f.command + " --check " + f.script()
	}
	return strings.NewReplacer("{program}", f.program(), "{commandline}", f.commandLine(), "{engine}", f.engine(), "{package}", pkg, "{documentation}", documentation, "{python}", python, "{checker}", checker,
		"{usage}", display.Shorten(usage, maxUsageText)).Replace(says)
}

// runner returns the name of the program without its directory.
func (f *failure) runner() string {
	return strings.TrimSuffix(filepath.Base(filepath.ToSlash(f.command)), ".exe")
}

// script returns the first argument that is not an option: a script, or a package.
func (f *failure) script() string {
	for _, arg := range f.args {
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return ""
}

// pkg returns the package that npx or uvx runs, without its version.
func (f *failure) pkg() string {
	if runner := f.runner(); runner != "npx" && runner != "uvx" && runner != "bunx" {
		return ""
	}
	name := f.script()
	if at := strings.LastIndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	return name
}

// commandLine returns the command with all arguments, as a shell takes them, with *** for secrets.
func (f *failure) commandLine() string {
	var secrets secret.List
	secrets.AddArgs(f.args)
	mask := secrets.Replacer()
	words := []string{plaintext.ShellWord(secret.RedactCommand(f.command))}
	for _, arg := range f.args {
		words = append(words, plaintext.ShellWord(mask.Replace(arg)))
	}
	return display.Shorten(strings.Join(words, " "), maxLine)
}

// engine returns the version of Node.js that npm says is needed, as in ", >=22.5.0"; "" if it says none.
func (f *failure) engine() string {
	for _, line := range f.stderr {
		if m := engines.FindStringSubmatch(display.Prefix(line, maxLine)); m != nil {
			return ", " + m[1]
		}
	}
	return ""
}

// engines matches a line of npm's warning about a package that wants another Node.js.
var engines = regexp.MustCompile(`^npm (?:warn|WARN) EBADENGINE +required: \{ node: '([^']+)'`)

// program returns the command up to the script or the package. Later arguments may be secrets.
func (f *failure) program() string {
	words := []string{plaintext.ShellWord(secret.RedactCommand(f.command))}
	if script := f.script(); script != "" && slices.Contains([]string{"npx", "uvx", "bunx", "node", "bun", "deno", "python", "python3", "docker", "podman", "uv"}, f.runner()) {
		for _, arg := range f.args {
			if strings.HasPrefix(arg, "-") && len(arg) > 3 {
				continue
			}
			words = append(words, plaintext.ShellWord(arg))
			if arg == script {
				break
			}
		}
	}
	return strings.Join(words, " ")
}

const (
	variableRule = "variable"
	// variablePattern matches a line that says that something is missing, and a name.
	variablePattern = `\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b|\b(?i:set) [A-Z]{3,}\b`
)

var (
	missingWords = regexp.MustCompile(`(?i)\b(?:required|requires|missing|pass|without|not set|n't set|unset|must|please|provide|provided|not found|not defined|undefined|need|needs|set|empty)\b`)
	// codes match names that are no variables: error codes of Node.js and others.
	codes = regexp.MustCompile(`^(?:NO_COLOR$|FORCE_COLOR$|ERR_|E2BIG|MODULE_NOT_FOUND$|NODE_MODULE_VERSION$|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|CERT_|HTTP_|JSON_|INVALID_|UNKNOWN_|NOT_FOUND$|PERMISSION_DENIED$|INTERNAL_ERROR$)`)
)

// variablesAdvice returns the line for "env" if a line says that variables are missing; "" if it
// does not, or if the server gets them.
func (f *failure) variablesAdvice(line string) string {
	if !missingWords.MatchString(line) {
		return ""
	}
	names := slices.DeleteFunc(variableNames.FindAllString(line, -1), func(name string) bool {
		return codes.MatchString(name) || f.has(name) || !strings.Contains(name, "_") && !strings.Contains(line, "set "+name)
	})
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return ""
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Index(line, a) - strings.Index(line, b) })
	if len(names) > 1 && alternatives(line, names) {
		names = names[:1]
	}
	names = names[:min(len(names), 5)]
	pairs := make([]string, len(names))
	for i, name := range names {
		pairs[i] = strconv.Quote(name) + `: "${` + name + `}"`
	}
	return `add "env": {` + strings.Join(pairs, ", ") + "}, and set " + strings.Join(names, " and ") + " before mcpvisor starts"
}

// alternatives reports whether a line offers one name or another.
func alternatives(line string, names []string) bool {
	first, last := strings.Index(line, names[0]), strings.LastIndex(line, names[len(names)-1])
	return strings.Contains(line[first:last], " or ")
}
