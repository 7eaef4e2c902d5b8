//go:build unix

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
)

const stranger = 65534 // a user that no test runs as

// Another user who can make files where XDG_RUNTIME_DIR is leads neither the log of a started run, nor its
// socket, lock, process id and key, to another file.
func TestStart_files_of_another_user(t *testing.T) {
	secret := strings.Repeat("a line of the user\n", maxLogBytes/16) // longer than a log that is emptied
	type place struct{ shared, dir, log, victim string }
	link := func(p place) error { return os.Symlink(p.victim, p.log) }
	for name, plant := range map[string]func(p place) error{
		"open directory, link": func(p place) error {
			_ = os.Mkdir(p.dir, 0o700)
			_ = os.Chmod(p.dir, 0o777)
			return link(p)
		},
		"directory of another user, link": func(p place) error {
			_ = os.Mkdir(p.dir, 0o755)
			_ = link(p)
			return os.Chown(p.dir, stranger, stranger)
		},
		"link in a directory that was open": func(p place) error { _ = os.Mkdir(p.dir, 0o700); return link(p) },
		"hard link":                         func(p place) error { _ = os.Mkdir(p.dir, 0o700); return os.Link(p.victim, p.log) },
		"pipe":                              func(p place) error { _ = os.Mkdir(p.dir, 0o700); return syscall.Mkfifo(p.log, 0o666) },
		"file of another user": func(p place) error {
			_ = os.Mkdir(p.dir, 0o700)
			_ = os.WriteFile(p.log, nil, 0o600)
			return os.Chown(p.log, stranger, stranger)
		},
		"directory is a link": func(p place) error {
			other := filepath.Join(p.shared, "other")
			_ = os.Mkdir(other, 0o700)
			return os.Symlink(other, p.dir)
		},
	} {
		for _, extension := range []string{".log", ".lock", ".pid", ".key"} {
			t.Run(name+extension, func(t *testing.T) {
				if os.Geteuid() != 0 && strings.Contains(name, "of another user") {
					t.Skip("only the superuser can change the owner of a file")
				}
				shared, err := os.MkdirTemp("", "mv") //nolint:usetesting // paths of sockets are short
				require.NoError(t, err)
				t.Cleanup(func() { _ = os.RemoveAll(shared) })
				t.Setenv("XDG_RUNTIME_DIR", shared)
				t.Setenv(startedVariable, "1")
				sources := cli.Sources{Key: filepath.Join(t.TempDir(), "c.json")}
				path, err := socket.Path(sources.Key)
				require.NoError(t, err)
				victim := filepath.Join(t.TempDir(), "victim")
				require.NoError(t, os.WriteFile(victim, []byte(secret), 0o600))
				p := place{shared, filepath.Dir(path), strings.TrimSuffix(path, ".sock") + extension, victim}
				require.NoError(t, plant(p))

				if extension == ".log" {
					started, err := Start(sources)
					if err == nil {
						<-started.Ended
					}
					require.Error(t, err)
				} else {
					l, err := socket.Listen(path, "")
					if err == nil {
						_, err = l.Key()
						require.NoError(t, l.Close())
					}
					require.Error(t, err)
				}
				now, err := os.ReadFile(victim) // a link that is followed makes it shorter or longer
				require.NoError(t, err)
				require.Len(t, now, len(secret), "the file was changed")
			})
		}
	}
}
