package packaging

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// modulePath is that of the root.
const modulePath = "github.com/mcpvisor/mcpvisor"

// released are the folders of the modules that `go install` of the program needs.
var released = []string{".", "telemetry", "journal", "fleet", "cmd/mcpvisor"}

// go install of a released version works for someone who has no clone: the modules are
// served as a proxy serves them, with the requirements that docs/releasing.md sets.
func TestInstall(t *testing.T) {
	if os.Getenv(goreleaserVariable) == "" {
		t.Skip("the modules are installed only by: .ci/run release")
	}
	const version = "v0.1.0-test"
	proxy := t.TempDir()
	for _, folder := range released {
		publish(t, proxy, folder, version)
	}
	dir := t.TempDir()
	install := exec.Command("go", "install", modulePath+"/cmd/mcpvisor@"+version)
	install.Dir = dir
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=", "GOMODCACHE="+filepath.Join(dir, "modules"), "GOFLAGS=-modcacherw",
		// The other modules come from the cache, where go.sum has checked them.
		"GOSUMDB=off", "GOPROXY="+strings.Join([]string{fileURL(proxy), fileURL(filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download")), goEnv(t, "GOPROXY")}, ","))
	out, err := install.CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(filepath.Join(dir, "mcpvisor"), "version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "mcpvisor "+version+" go")
}

// publish writes the module in a folder of the repository as a version into a proxy.
func publish(t *testing.T, proxy, folder, version string) {
	t.Helper()
	path := strings.TrimSuffix(modulePath+"/"+strings.TrimPrefix(folder, "."), "/")
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	mod := requireVersion(read(t, filepath.FromSlash(folder), "go.mod"), version)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("list", version+"\n")
	write(version+".info", `{"Version": "`+version+`"}`)
	write(version+".mod", mod)
	file, err := os.Create(filepath.Join(dir, version+".zip"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	archive := zip.NewWriter(file)
	for _, name := range filesOf(t, folder) {
		text := mod
		if name != "go.mod" {
			text = read(t, filepath.FromSlash(folder), filepath.FromSlash(name))
		}
		w, err := archive.Create(path + "@" + version + "/" + name)
		require.NoError(t, err)
		_, err = w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
}

// requireVersion returns a go.mod that requires a version of the modules of this repository,
// as the one of a release does.
func requireVersion(mod, version string) string {
	lines := strings.Split(mod, "\n")
	for i, line := range lines {
		if path, _, ok := strings.Cut(strings.TrimSpace(line), " v"); ok && (path == modulePath || strings.HasPrefix(path, modulePath+"/")) {
			lines[i] = "\t" + path + " " + version
		}
	}
	return strings.Join(lines, "\n")
}

// filesOf returns the files that a module has in its folder, without those of other modules
// in it and those that git ignores.
func filesOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	dir := filepath.Join(root, filepath.FromSlash(folder))
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil || slices.Contains([]string{".git", "bin", "dist", ".release", "node_modules"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			name, err := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(name))
			return err
		}
		return nil
	}))
	return names
}

// fileURL returns the URL of a folder.
func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // of a drive of Windows
	}
	return "file://" + path
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
