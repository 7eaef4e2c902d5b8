package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The programs and libraries of this machine stand in for those of the base images, which are in
// no registry that every machine reaches. The steps of the Dockerfile are the real ones.
const standInPath = "/stand-in:/usr/local/go/bin:/usr/local/bin:/usr/sbin:/usr/bin"

// standInAdduser is adduser of busybox, as far as the Dockerfile uses it.
const standInAdduser = `#!/usr/bin/sh
while [ $# -gt 1 ]; do [ "$1" = -u ] && { uid=$2; shift; }; shift; done
echo "$1:x:$uid:$uid::/home/$1:/bin/sh" >>/etc/passwd
echo "$1:x:$uid:" >>/etc/group
`

// builder runs buildah with a storage of its own.
type builder struct {
	t   *testing.T
	dir string
}

// newBuilder skips the test where images cannot be built.
func newBuilder(t *testing.T) *builder {
	t.Helper()
	builtProgram(t) // fills the caches, and skips a mere go test
	for _, name := range []string{"buildah", "git", "busybox"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not installed, so the image is not built")
		}
	}
	if os.Getuid() != 0 {
		t.Skip("not root, so the image is not built")
	}
	b := &builder{t, t.TempDir()}
	if _, err := b.try("from", "--name", "probe", "scratch"); err != nil {
		t.Skip("buildah does not work here, so the image is not built: " + err.Error())
	}
	t.Cleanup(func() { b.do("rm", "--all") })
	return b
}

// try runs buildah, and returns what it prints.
func (b *builder) try(args ...string) (string, error) {
	storage := []string{"--root", filepath.Join(b.dir, "storage"), "--runroot", filepath.Join(b.dir, "run"), "--storage-driver", "vfs"}
	cmd := exec.Command("buildah", append(storage, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+b.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("buildah %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func (b *builder) do(args ...string) string {
	b.t.Helper()
	out, err := b.try(args...)
	require.NoError(b.t, err)
	return out
}

// standIn makes an image that has the name of a base image, and nothing but a shell.
func (b *builder) standIn(image string, env ...string) {
	b.t.Helper()
	container := b.do("from", "scratch")
	tree := b.do("mount", container)
	for _, dir := range []string{"stand-in", "bin", "usr", "etc", "tmp", "var/lib", "run", "root", "go", "cache"} {
		require.NoError(b.t, os.MkdirAll(filepath.Join(tree, dir), 0o755))
	}
	for _, name := range []string{"lib", "lib64"} {
		require.NoError(b.t, os.Symlink("usr/"+name, filepath.Join(tree, name)))
	}
	require.NoError(b.t, os.WriteFile(filepath.Join(tree, "stand-in/adduser"), []byte(standInAdduser), 0o755))
	busybox, err := exec.LookPath("busybox")
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(tree, "bin/sh"), readFile(b.t, busybox), 0o755))
	for _, variable := range append(env, "PATH="+standInPath) {
		b.do("config", "--env", variable, container)
	}
	b.do("umount", container)
	b.do("commit", "--quiet", container, image)
	b.do("rm", container)
}

// The image is built by the steps of its Dockerfile. Its program knows its version, runs without
// rights, and starts a server.
func TestImage(t *testing.T) {
	b := newBuilder(t)
	text := read(t, "deploy", "Dockerfile")
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "FROM" {
			b.standIn("docker.io/library/"+words[1], "GOPROXY=off", "GOCACHE=/cache", "GOTOOLCHAIN=local", "GOMODCACHE="+goEnv(t, "GOMODCACHE"))
		}
	}
	var volumes []string
	for _, v := range []string{"/usr:/usr:ro", goEnv(t, "GOROOT") + ":/usr/local/go:ro", goEnv(t, "GOCACHE") + ":/cache:rw", goEnv(t, "GOMODCACHE") + ":" + goEnv(t, "GOMODCACHE") + ":rw"} {
		volumes = append(volumes, "--volume", v)
	}
	build := append([]string{"bud", "--isolation", "chroot", "--pull-never"}, volumes...)
	b.do(append(build, "-f", filepath.Join(root, "deploy", "Dockerfile"), "-t", "mcpvisor", root)...)

	container := b.do("from", "--pull-never", "mcpvisor")
	tree := b.do("mount", container)
	libraries := []string{"--volume", "/usr/lib:/usr/lib:ro"} // of the server
	if _, err := os.Stat("/usr/lib64"); err == nil {
		libraries = append(libraries, "--volume", "/usr/lib64:/usr/lib64:ro")
	}
	in := func(command ...string) string {
		return b.do(slices.Concat([]string{"run", "--isolation", "chroot"}, libraries, []string{container, "--"}, command)...)
	}
	revision, err := exec.Command("git", "-C", root, "rev-parse", "--short=12", "HEAD").Output()
	require.NoError(t, err)
	require.Contains(t, in("/usr/local/bin/mcpvisor", "--version"), strings.TrimSpace(string(revision)))

	self, err := os.Executable()
	require.NoError(t, err)
	for path, text := range map[string][]byte{"usr/bin/echo-server": readFile(t, self), "etc/mcpvisor/mcp.json": configOf(t, "one")} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(tree, path), text, 0o755))
	}
	out := in("/bin/sh", "-c", `mcpvisor run & run=$!
		mcpvisor status --wait ready --timeout 60s && mcpvisor call one/echo '{"text": "from the image"}'
		while read -r name value _; do [ "$name" = Uid: ] && echo "user $value"; done </proc/$run/status
		kill -TERM $run; wait $run; echo "exit $?"`)
	for _, line := range []string{"one +ready", "from the image", "user 65532", "stopped 1 server", "exit 0"} {
		require.Regexp(t, line, out)
	}
}
