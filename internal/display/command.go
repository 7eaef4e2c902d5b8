package display

import (
	"path"
	"slices"
	"strings"
)

// maxCommand bounds what Command returns, in bytes.
const maxCommand = 120

// Command returns the word by which a user recognises what a command runs: the package of
// "npx -y @scope/server --key x" is "npx @scope/server", and the script of "node /opt/x/dist/index.js"
// is "node x/dist/index.js". Other commands are returned as they are, without arguments. It
// does not look for secrets: of the arguments it shows a package, an image, a module or a
// script.
func Command(command string, args []string) string {
	return Shorten(Line(recognise(command, args, 2)), maxCommand)
}

// packageRunners are the runners that may have to download what they run, and build it.
var packageRunners = []string{"npx", "pnpx", "bunx", "npm", "pnpm", "yarn", "uvx", "uv", "pipx"}

// PackageRunner returns the name of the runner, such as npx or uvx, that may install what a command runs
// before it runs that; "" without one.
func PackageRunner(command string, args []string) string {
	name, _, _ := strings.Cut(recognise(command, args, 2), " ")
	if name = programName(name); slices.Contains(packageRunners, name) {
		return name
	}
	return ""
}

// runner says how to find, among the arguments of a program, what it runs.
type runner struct {
	// commands are those of the program that run something; nil if the program itself does.
	commands []string
	// valued are flags with a value in the next argument; others have none, or it follows "=".
	valued []string
	// named are flags whose value is what runs.
	named []string
	// code are flags whose value is a program text.
	code []string
	// switches, if set, are all flags without a value.
	switches []string
	// files: what runs is a file.
	files bool
}

var (
	npx    = runner{valued: []string{"-w", "--workspace", "--registry", "--cache", "--prefix"}, named: []string{"-p", "--package"}}
	uv     = []string{"--python", "-p", "--with", "--with-editable", "--with-requirements", "--directory", "--project", "--index-url", "--index", "--extra-index-url", "-m", "--env-file", "--extra", "--group"}
	python = runner{valued: []string{"-W", "-X"}, named: []string{"-m"}, code: []string{"-c"}, files: true}
	docker = runner{commands: []string{"run", "container"}, switches: []string{"-i", "-t", "-it", "-ti", "-d", "-q", "--rm", "--init", "--interactive", "--tty", "--detach", "--privileged", "--read-only", "--quiet", "-P", "--publish-all", "--no-healthcheck", "--oom-kill-disable"}}
	shell  = runner{code: []string{"-c", "-lc", "-ic", "-ec"}, files: true}
	node   = runner{valued: []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--env-file"}, code: []string{"-e", "--eval", "-p", "--print"}, files: true}
)

// runners are the programs that run something else, by name.
var runners = map[string]runner{
	"npx": npx, "pnpx": npx, "bunx": npx,
	"npm":    {commands: []string{"exec", "x"}, valued: npx.valued, named: npx.named},
	"pnpm":   {commands: []string{"dlx", "exec"}, valued: npx.valued, named: npx.named},
	"yarn":   {commands: []string{"dlx"}, valued: npx.valued, named: npx.named},
	"uvx":    {valued: uv, named: []string{"--from"}},
	"uv":     {commands: []string{"run", "tool", "x"}, valued: uv, named: []string{"--from"}, files: true},
	"pipx":   {commands: []string{"run"}, valued: []string{"--python", "--index-url", "--pip-args"}, named: []string{"--spec"}},
	"docker": docker, "podman": docker, "nerdctl": docker,
	"node": node, "nodejs": node, "tsx": node, "ts-node": node,
	"bun":    {commands: []string{"run", "x"}, files: true},
	"deno":   {commands: []string{"run"}, valued: []string{"-c", "--config", "--import-map"}, files: true},
	"python": python, "python2": python, "python3": python, "py": python, "pypy3": python,
	"ruby": {valued: []string{"-I", "-r"}, code: []string{"-e"}, files: true}, "perl": {valued: []string{"-I"}, code: []string{"-e"}, files: true},
	"php":    {valued: []string{"-d", "-c"}, named: []string{"-f"}, code: []string{"-r"}, files: true},
	"java":   {valued: []string{"-cp", "-classpath", "--class-path", "-p", "--module-path"}, named: []string{"-jar"}, files: true},
	"dotnet": {commands: []string{"run", "exec"}, named: []string{"--project"}, files: true},
	"go":     {commands: []string{"run"}, valued: []string{"-C", "-tags", "-ldflags"}},
	"sh":     shell, "bash": shell, "zsh": shell, "dash": shell,
	"env": {valued: []string{"-u", "-C"}},
	"cmd": {},
}

// recognise finds what runs; depth bounds runners of runners, as in sh -c "npx x".
func recognise(command string, args []string, depth int) string {
	name := programName(command)
	r, known := runners[name]
	if !known || depth == 0 {
		return command
	}
	switch name {
	case "cmd": // cmd /c npx -y x
		for len(args) > 0 && strings.HasPrefix(args[0], "/") {
			args = args[1:]
		}
	case "env": // env NAME=value npx x
		args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.Contains(arg, "=") })
	}
	word, rest, code := r.find(args)
	switch {
	case code: // a program text; of a shell it may run something that is known
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(word), "exec "))
		if len(words) > 1 {
			if _, known := runners[programName(words[0])]; known {
				return recognise(words[0], words[1:], depth-1)
			}
		}
		return name + " " + strings.Join(args[:1], "")
	case word == "":
		return command
	case name == "cmd" || name == "env":
		return recognise(word, rest, depth-1)
	case slices.Contains(r.named, "-m") && slices.Contains(args, "-m"):
		return name + " -m " + word
	case r.files && looksLikeFile(word):
		word = shortPath(word)
	}
	if strings.Contains(word, "://") {
		word = withoutUser(word)
	}
	return name + " " + word
}

// programName is the name of a program without directory and suffix.
func programName(command string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(command, `\`, "/")))
	for _, suffix := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, suffix)
	}
	if rest, found := strings.CutPrefix(name, "python3."); found && rest != "" {
		return "python3"
	}
	return name
}

// find returns what args run, and the arguments after it. code: it is a program text.
func (r *runner) find(args []string) (word string, rest []string, code bool) {
	commands := len(r.commands) > 0
	for i := 0; i < len(args); i++ {
		arg := args[i]
		flag, value, joined := strings.Cut(arg, "=")
		following := func() string {
			if joined {
				return value
			}
			if i+1 < len(args) {
				return args[i+1]
			}
			return ""
		}
		switch {
		case arg == "--":
		case arg == "-":
		case slices.Contains(r.named, flag):
			return following(), nil, false
		case slices.Contains(r.code, flag):
			return following(), nil, true
		case strings.HasPrefix(arg, "-"):
			valued := slices.Contains(r.valued, flag) || r.switches != nil && !slices.Contains(r.switches, flag)
			if valued && !joined {
				i++
			}
		case commands:
			if !slices.Contains(r.commands, arg) {
				return "", nil, false
			}
			// "uv tool run x" and "docker container run x" have two.
			if commands = arg == "tool" || arg == "container"; commands {
				r = &runner{commands: []string{"run"}, valued: r.valued, named: r.named, switches: r.switches, files: r.files}
			}
		default:
			return arg, args[i+1:], false
		}
	}
	return "", nil, false
}

func looksLikeFile(word string) bool {
	return !strings.Contains(word, "://") && strings.ContainsAny(word, `/\.`)
}

// generic are names of scripts and folders that many projects have.
var generic = []string{"dist", "build", "src", "lib", "bin", "out", "index", "main", "server", "cli", "app", "__main__", "start", "run", "target", "release"}

// shortPath returns the end of a path, from the first name that says something.
func shortPath(file string) string {
	parts := strings.FieldsFunc(file, func(r rune) bool { return r == '/' || r == '\\' })
	if len(parts) == 0 {
		return file
	}
	from := len(parts) - 1
	for from > 0 {
		name, _, _ := strings.Cut(strings.ToLower(parts[from]), ".")
		if !slices.Contains(generic, name) {
			break
		}
		from--
	}
	return strings.Join(parts[from:], "/")
}

// withoutUser returns a URL without user, query and fragment.
func withoutUser(url string) string {
	url, _, _ = strings.Cut(url, "#")
	url, _, _ = strings.Cut(url, "?")
	scheme, rest, _ := strings.Cut(url, "://")
	authority, file, hasPath := strings.Cut(rest, "/")
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if hasPath {
		file = "/" + file
	}
	return scheme + "://" + authority + file
}
