package commandline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/commandline"
)

type manualGrammar struct {
	JSON bool   `name:"json" help:"Print JSON -- also for errors. 'quoted' and .dots and C:\\x."`
	File string `short:"f" help:"A file." placeholder:"FILE \"x\""`

	Call struct {
		Name string   `arg:"" help:"The tool."`
		Args []string `arg:"" optional:"" help:"More."`
		Fast bool     `help:"Fast."`
	} `cmd:"" help:"Call a tool."`
	Secret struct{} `cmd:"" hidden:"" help:"Not shown."`
}

func TestWrite(t *testing.T) {
	parser, err := kong.New(new(manualGrammar), kong.Name("prog"), kong.Description("One. Two two.\n\nThree "+strings.Repeat("word ", 30)+"\n.end"))
	require.NoError(t, err)
	page := commandline.ManualPage{Model: parser.Model, Summary: "do things", Date: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC),
		Sections: []commandline.Section{{Title: "FILES", Items: [][2]string{{`~/.x "y"`, "'A file.'"}}}}}
	var out strings.Builder
	require.NoError(t, page.Write(&out))
	text := out.String()
	for _, want := range []string{".Dd November 2, 2026\n.Dt PROG 1\n.Os\n", "One.\nTwo two.\n.Pp\nThree word", ".Ss prog call\n.Ic prog call Ar name Op Ar args ...\n",
		".It Fl f , Fl \\-file Ar \"FILE \"\"x\"\"\"\n", "\\-\\- also", ".It Fl \\-fast\nFast.\n", ".Sh FILES\n.Bl -tag -width Ds\n.It \"~/.x \"\"y\"\"\"\n\\&'A file.'\n.El\n"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "Not shown")

	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("mandoc is not installed")
	}
	path := filepath.Join(t.TempDir(), "prog.1")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	problems, err := exec.CommandContext(t.Context(), mandoc, "-Tlint", path).CombinedOutput()
	require.NoError(t, err, string(problems))
	rendered, err := exec.CommandContext(t.Context(), mandoc, "-Tascii", path).Output()
	require.NoError(t, err)
	require.Contains(t, string(rendered), `C:\x.`)
	require.Contains(t, regexp.MustCompile(`.\x08`).ReplaceAllString(string(rendered), ""), "-f, --file FILE")
}
