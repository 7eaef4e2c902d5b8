package servers

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A keyring that does not answer delays a node once, and not for each server.
func TestQuickKeyring(t *testing.T) {
	var asked atomic.Int64
	release := make(chan struct{})
	defer close(release)
	k := quickKeyring{wait: time.Millisecond, pause: time.Hour, get: func(string, string) (string, error) {
		asked.Add(1)
		<-release
		return "", nil
	}}
	for range 3 {
		_, err := k.lookUp("mcp", "docs")
		require.ErrorContains(t, err, "has not answered lately")
	}
	require.LessOrEqual(t, asked.Load(), int64(1))
	good := quickKeyring{wait: time.Hour, pause: time.Hour, get: func(service, account string) (string, error) { return service + account, nil }}
	value, err := good.lookUp("a", "b")
	require.NoError(t, err)
	require.Equal(t, "ab", value)
}
