package transport

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// takeDescriptors opens files until the limit is reached.
func takeDescriptors(t *testing.T) {
	t.Helper()
	for {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			return
		}
	}
}

// An open that fails for another reason than a lack of descriptors leaves the spare
// ones. A process of its own runs the test, because it takes all descriptors.
func TestSpareDescriptorsAfterRefusedOpens(t *testing.T) {
	const alone = "TRANSPORT_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSpareDescriptorsAfterRefusedOpens$")
		cmd.Env = append(os.Environ(), alone+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	var r descriptorReserve
	r.begin()
	defer r.end()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}))
	takeDescriptors(t)
	for range 2 * spareDescriptors {
		_, err := r.open(func() (int, error) { return unix.Open("/proc/self/none", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
		require.ErrorIs(t, err, unix.ENOENT)
		require.Len(t, r.spares, spareDescriptors)
		takeDescriptors(t)
	}
	for range 2 * spareDescriptors {
		d, err := r.open(func() (int, error) { return unix.Open("/proc/self/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
		require.NoError(t, err)
		r.close(d)
		takeDescriptors(t)
	}
	require.Len(t, r.spares, spareDescriptors)
}
