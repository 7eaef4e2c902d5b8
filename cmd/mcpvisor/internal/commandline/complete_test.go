package commandline_test

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/commandline"
)

type grammar struct {
	Config []string `short:"c" complete:"file" sep:"none"`
	JSON   bool     `name:"json" help:"Print JSON. And more."`
	Wait   string   `complete:"ready,any"`

	Call struct {
		Name      string   `arg:"" complete:"tool"`
		Arguments []string `arg:"" optional:"" complete:"argument"`
		Timeout   string
	} `cmd:"" help:"Call a tool."`
	Tools struct {
		Name string `arg:"" optional:"" complete:"target"`
	} `cmd:""`
	Restart struct {
		Servers []string `arg:"" complete:"server"`
	} `cmd:""`
	Show struct {
		Shell string `arg:"" complete:"bash,zsh"`
	} `cmd:""`
	Add struct {
		Preset string `arg:"" complete:"preset"`
		Plain  string `arg:"" optional:""`
	} `cmd:""`
	Help struct {
		Command []string `arg:"" optional:"" complete:"command"`
	} `cmd:""`
	Secret struct{} `cmd:"" hidden:""`
}

func names(kind string, given []string) (all []commandline.Candidate) {
	for _, value := range map[string][]string{
		"server": {"fs", "git"}, "tool": {"fs/list", "fs/read", "fs/x;y", "fs/$(x)", "fs/a b", "fs/a\nb", "fs/*", "fs/\x1b", "fs/`x`", "fs/ü", "git/log"},
		"target": {"fs", "git", "fs/list", "fs/read", "git/log"}, "preset": {"preset1"},
	}[kind] {
		all = append(all, commandline.Candidate{Value: value})
	}
	if kind == "argument" {
		all = append(all, commandline.Candidate{Value: "of=" + given[0]}, commandline.Candidate{Value: "path=", Description: "Where."})
	}
	return all
}

func TestComplete(t *testing.T) {
	parser, err := kong.New(new(grammar), kong.Name("mcpvisor"))
	require.NoError(t, err)
	for line, want := range map[string]string{
		"":                           "call tools restart show add help",
		"c":                          "call",
		"--js":                       "--json",
		"--json --w":                 "--wait",
		"--wait ":                    "ready any",
		"--wait=r":                   "--wait=ready",
		"-c ":                        ":files",
		"--config x --config ":       ":files",
		"-c x ca":                    "call",
		"call ":                      "fs/list fs/read git/log",
		"call fs/":                   "fs/list fs/read",
		"--wait any call --timeout ": "",
		"call --timeout 3s git":      "git/log",
		"call --ti":                  "--timeout",
		"call fs/list ":              "of=fs/list path=",
		"call fs/list a=1 p":         "path=",
		"call fs/list -- -":          "",
		"tools f":                    "fs fs/list fs/read",
		"tools fs ":                  "",
		"restart fs ":                "git",
		"show ":                      "bash zsh",
		"help s":                     "show",
		"add ":                       "preset1",
		"add x ":                     "",
		"nothing x":                  "",
	} {
		var values []string
		for _, c := range commandline.Complete(parser.Model, strings.Split(line, " "), names) {
			values = append(values, c.Value)
		}
		require.Equal(t, want, strings.Join(values, " "), line)
	}
	require.Equal(t, []string{"a", "b", "c"}, commandline.Flag(parser.Model, strings.Split("--json -c a call --config=b x --config c y", " "), "config"))
	require.Empty(t, commandline.Flag(parser.Model, strings.Split("call -- --config c y", " "), "config"))
	require.Equal(t, "Call a tool", commandline.Complete(parser.Model, []string{"ca"}, names)[0].Description)
	require.Equal(t, "Print JSON", commandline.Complete(parser.Model, []string{"--js"}, names)[0].Description)
}

func TestSplitLine(t *testing.T) {
	for line, want := range map[string][]string{
		"mcpvisor ":                        {"", ""},
		"mcpvisor ca":                      {"ca", ""},
		`mcpvisor  -c "a b" call x\ y/z p`: {"-c|a b|call|x y/z|p", ""},
		"mcpvisor call fs/list path=/t":    {"call|fs/list|path=/t", "path="},
		"mcpvisor call fs/list n:=":        {"call|fs/list|n:=", "n:="},
		"mcpvisor call 'fs/l":              {"call|fs/l", ""},
	} {
		words, broken := commandline.SplitLine(line, " \t\n\"'><=;|&(:")
		require.Equal(t, want, []string{strings.Join(words, "|"), broken}, line)
	}
}

func TestScript(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		text, err := commandline.Script(shell)
		require.NoError(t, err)
		require.Contains(t, text, "__complete")
	}
	_, err := commandline.Script("tcsh")
	require.EqualError(t, err, `there is no completion for "tcsh"; name one of: bash, zsh, fish, powershell`)
}
