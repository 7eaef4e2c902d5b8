package descendants

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func procListNow(t *testing.T) *procList {
	t.Helper()
	list, err := descriptors.listProcesses()
	require.NoError(t, err)
	return list
}

// refOf returns how a list identifies a process; false if it does not hold it.
func refOf(list *procList, pid int) (procRef, bool) {
	for _, r := range list.procs {
		if r.pid() == pid {
			return r, true
		}
	}
	return 0, false
}

func TestProcList(t *testing.T) {
	before := procListNow(t)
	_, ok := refOf(before, 1)
	require.True(t, ok)

	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	during := procListNow(t)
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	after := procListNow(t)

	child, ok := refOf(during, cmd.Process.Pid)
	require.True(t, ok)
	require.True(t, during.has(child))
	require.False(t, before.has(child))
	require.False(t, after.has(child))
	for name, list := range map[string]*procList{"during": during, "after": after} {
		own, ok := refOf(list, os.Getpid())
		require.True(t, ok, name)
		require.True(t, before.has(own), "a process has another identity in the list %s", name)
	}
	require.True(t, before.earlier(during) == before && during.earlier(before) == before)
	require.Nil(t, before.earlier(nil))
}

// openAll opens files until this process has no free descriptor.
func openAll(t *testing.T) {
	t.Helper()
	for {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			return
		}
	}
}

// An open that fails for another reason than a lack of descriptors uses up no spare one.
// The test runs in a process of its own, because it takes all descriptors.
func TestDescriptorReserve_open_fails(t *testing.T) {
	const alone = "TRANSPORT_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDescriptorReserve_open_fails$")
		cmd.Env = append(os.Environ(), alone+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	var r descriptorReserve
	r.addUser()
	defer r.removeUser()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}))
	openAll(t)
	for range 2 * spareDescriptors {
		_, err := r.open(func() (int, error) { return unix.Open("/proc/self/none", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
		require.ErrorIs(t, err, unix.ENOENT)
		require.Len(t, r.spares, spareDescriptors)
		openAll(t)
	}
	for range 2 * spareDescriptors {
		d, err := r.open(func() (int, error) { return unix.Open("/proc/self/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
		require.NoError(t, err)
		r.close(d)
		openAll(t)
	}
	require.Len(t, r.spares, spareDescriptors)
}
