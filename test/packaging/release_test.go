package packaging

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// root is the path of the repository.
const root = "../.."

// release is the part of the configuration of goreleaser that the tests read. Unknown keys
// fail the decoder, so a misspelt one is found without goreleaser itself.
type release struct {
	Version     int
	ProjectName string `yaml:"project_name"`
	Before      struct{ Hooks []string }
	Builds      []struct {
		ID, Dir, Main, Binary, ModTimestamp string   `yaml:",omitempty"`
		Timestamp                           string   `yaml:"mod_timestamp"`
		Env, Flags, Ldflags                 []string `yaml:",omitempty"`
		Goos, Goarch                        []string
	}
	Archives []struct {
		ID              string
		Formats, Files  []string
		FormatOverrides []struct {
			Goos    string
			Formats []string
		} `yaml:"format_overrides"`
	}
	Nfpms    []packageFile
	Checksum struct {
		NameTemplate string `yaml:"name_template"`
		Algorithm    string
	}
	Sboms     []struct{ ID, Artifacts string }
	Source    struct{ Enabled bool }
	Snapshot  map[string]string
	Changelog struct{ Disable bool }
	Release   struct{ Disable bool }
}

// packageFile is a package for deb and rpm.
type packageFile struct {
	ID               string
	PackageName      string `yaml:"package_name"`
	FileNameTemplate string `yaml:"file_name_template"`
	Formats          []string
	Vendor           string
	Maintainer       string
	Homepage         string
	Description      string
	License          string
	Section          string
	Bindir           string
	Contents         []struct{ Src, Dst, Type, Packager string }
	Scripts          map[string]string
}

func readRelease(t *testing.T) (r release) {
	t.Helper()
	f, err := os.Open(filepath.Join(root, ".goreleaser.yaml"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	require.NoError(t, d.Decode(&r))
	return r
}

// A release has archives, packages, checksums and a bill of materials, and is published
// nowhere. Every file that it names exists.
func TestRelease(t *testing.T) {
	r := readRelease(t)
	require.Equal(t, 2, r.Version)
	require.True(t, r.Release.Disable, "nothing is published")
	require.Len(t, r.Builds, 1)
	b := r.Builds[0]
	require.FileExists(t, filepath.Join(root, b.Dir, b.Main, "main.go"))
	require.Contains(t, b.Env, "CGO_ENABLED=0")
	require.Contains(t, b.Env, "GOWORK={{ if not .IsSnapshot }}off{{ end }}", "a release has what go install has")
	require.Contains(t, b.Flags, "-trimpath")
	require.Equal(t, []string{"linux", "darwin", "windows"}, b.Goos)
	require.Equal(t, []string{"deb", "rpm"}, r.Nfpms[0].Formats)
	require.Equal(t, "sha256", r.Checksum.Algorithm)
	require.NotEmpty(t, r.Sboms)
	require.True(t, r.Source.Enabled)

	var named []string
	for _, hook := range r.Before.Hooks {
		if strings.Contains(hook, "/") {
			named = append(named, hook)
		}
	}
	named = append(named, r.Archives[0].Files...)
	for _, c := range r.Nfpms[0].Contents {
		named = append(named, c.Src)
		require.True(t, strings.HasPrefix(c.Dst, "/"), c.Dst)
	}
	for _, script := range r.Nfpms[0].Scripts {
		named = append(named, script)
	}
	makes, err := os.ReadFile(filepath.Join(root, "deploy", "release-files"))
	require.NoError(t, err)
	for _, file := range named {
		if strings.HasPrefix(file, ".release/") {
			name := strings.TrimPrefix(file, ".release/")
			shell := strings.TrimPrefix(name, "mcpvisor.")
			require.True(t, name == "*" || strings.Contains(string(makes), name) || strings.Contains(string(makes), shell), "release-files makes no %s", file)
			continue
		}
		found, err := filepath.Glob(filepath.Join(root, file))
		require.NoError(t, err)
		require.NotEmpty(t, found, "%s does not exist", file)
	}
}

// buildVariable is set by .ci/run packaging. Without it, tests that need the program of a
// release are skipped, because to build it takes a minute.
const buildVariable = "MCPVISOR_PACKAGING"

// builtProgram returns the program as a release has it.
func builtProgram(t *testing.T) string {
	t.Helper()
	if os.Getenv(buildVariable) == "" {
		t.Skip("the program is built only by: .ci/run packaging")
	}
	path, err := program()
	require.NoError(t, err)
	return path
}

// programDir is the directory of the program; empty until a test has needed it.
var programDir string

// program builds the program, once for all tests. Paths are not trimmed, so that packages of
// other builds can be used.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mcpvisor-packaging")
	if err != nil {
		return "", err
	}
	programDir = dir
	path := filepath.Join(dir, "mcpvisor")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./cmd/mcpvisor")
	cmd.Dir, cmd.Env, cmd.Stderr = root, append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	return path, cmd.Run()
})

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

func TestMain(m *testing.M) {
	mcptest.Main() // the server of the service
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, dir := range []string{programDir, distParent} {
			if dir != "" {
				_ = os.RemoveAll(dir)
			}
		}
		os.Exit(code)
	}))
}

// The program is static: it runs in any image.
func TestProgram_is_static(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("programs of Linux only")
	}
	path := builtProgram(t)
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "it needs a dynamic loader")
	}
	out, err := exec.Command(path, "version").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "mcpvisor")
}
