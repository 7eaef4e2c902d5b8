package packaging

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// goreleaserVariable names the program goreleaser. Without it no release is built.
const goreleaserVariable = "MCPVISOR_GORELEASER"

// dist is the folder of a release of this clone for this machine, which goreleaser made.
func dist(t *testing.T) string {
	t.Helper()
	if os.Getenv(goreleaserVariable) == "" {
		t.Skip("goreleaser is not installed; .ci/run release installs it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("packages of Linux only")
	}
	dir, err := goreleased()
	require.NoError(t, err)
	return dir
}

// distParent is the directory of dist; empty until a test has needed it.
var distParent string

// goreleased runs goreleaser, once for all tests. Of the platforms it builds this one only.
var goreleased = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		return "", err
	}
	if distParent, err = os.MkdirTemp("", "mcpvisor-release"); err != nil {
		return "", err
	}
	dir := filepath.Join(distParent, "dist")
	own := regexp.MustCompile(`(?m)^( +)goos: .*`).ReplaceAllString(string(text), "${1}goos: ["+runtime.GOOS+"]")
	own = regexp.MustCompile(`(?m)^( +)goarch: .*`).ReplaceAllString(own, "${1}goarch: ["+runtime.GOARCH+"]") + "dist: " + dir + "\n"
	own = strings.Replace(own, "\nsource:\n  enabled: true\n", "\n", 1) // a clone without a remote has none
	config := filepath.Join(distParent, "goreleaser.yaml")
	if err := os.WriteFile(config, []byte(own), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(os.Getenv(goreleaserVariable), "release", "--snapshot", "--skip=sbom", "--config", config)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return dir, nil
})

// only is the one file that a pattern matches.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	return found[0]
}

// The archive, the packages and their checksums are what docs/releasing.md says, and the
// program knows its version.
func TestGoreleaser(t *testing.T) {
	dir := dist(t)
	archive := only(t, dir, "mcpvisor_*_linux_*.tar.gz")
	names := extract(t, archive, t.TempDir(), "mcpvisor")
	for _, name := range []string{"mcpvisor", "LICENSE", "README.md", ".release/mcpvisor.bash", ".release/mcpvisor.ps1",
		"deploy/systemd/mcpvisor.service", "deploy/systemd/mcpvisor.sysusers", "config/mcpvisor.schema.json"} {
		require.Contains(t, names, name)
	}
	sums := string(readFile(t, filepath.Join(dir, "checksums.txt")))
	for _, pattern := range []string{"*.tar.gz", "*.deb", "*.rpm"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			sum := sha256.Sum256(readFile(t, file))
			require.Contains(t, sums, hex.EncodeToString(sum[:])+"  "+filepath.Base(file))
		}
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed, so the package is not read")
	}
	out, err := exec.Command("dpkg-deb", "--contents", only(t, dir, "*.deb")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, path := range []string{"usr/bin/mcpvisor", "usr/lib/systemd/system/mcpvisor.service", "usr/lib/sysusers.d/mcpvisor.conf", "etc/mcpvisor/mcp.json",
		"usr/share/bash-completion/completions/mcpvisor", "usr/share/zsh/vendor-completions/_mcpvisor", "usr/share/fish/vendor_completions.d/mcpvisor.fish"} {
		require.Contains(t, string(out), " ./"+path+"\n")
	}
	require.NotContains(t, string(out), "site-functions", "that of Fedora")
}

// extract reads an archive, and returns the names in it. It runs the program in it.
func extract(t *testing.T, archive, into, program string) (names []string) {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names = append(names, header.Name)
		if header.Name == program {
			text, err := io.ReadAll(files)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(into, program), text, 0o755))
		}
	}
	slices.Sort(names)
	out, err := exec.Command(filepath.Join(into, program), "version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	if info, err := os.Stat(filepath.Join(root, ".git")); err != nil || !info.IsDir() {
		return names // in a linked work tree Go finds no version
	}
	head, err := exec.Command("git", "-C", root, "rev-parse", "HEAD").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "revision "+strings.TrimSpace(string(head))[:12])
	return names
}
