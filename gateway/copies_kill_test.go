//go:build unix

package gateway

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// kill -9 of a copy: its client learns what became of its call, and the next one has a new process. A call of
// another client in flight goes on.
func TestShare_kill(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, copied(dir))
	_, url := serveHTTP(t, c, WithShare(ShareClient))
	ann, bob := openUser(t, url, ""), openUser(t, url, "")
	first, second := pidOf(t, ann.user(false), "a__pid"), pidOf(t, bob.user(false), "a__pid")
	slow := func(p *peer) events {
		e := p.callStream(t.Context(), strings.Replace(toolCallOf(7, "a__slow_progress", `{"steps":1000000,"ms":1}`), `"params":{`, `"params":{"_meta":{"progressToken":1},`, 1))
		_, data, ok := e.next()
		require.True(t, ok)
		require.Contains(t, data, "notifications/progress", "the server has read it")
		return e
	}
	lost, kept := slow(ann), slow(bob)
	list, _ := ann.user(false)("tools/list", `{}`)
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	for {
		_, data, ok := lost.next()
		require.True(t, ok)
		if !strings.Contains(data, "notifications/progress") {
			require.Contains(t, data, "crashed during the call. Whether it had an effect is not known")
			break
		}
	}
	again := pidOf(t, ann.user(false), "a__pid")
	require.NotEqual(t, first, again)
	require.Equal(t, second, pidOf(t, bob.user(false), "a__pid"))
	_, data, ok := kept.next()
	require.True(t, ok)
	require.Contains(t, data, "notifications/progress")
	now, _ := bob.user(false)("tools/list", `{}`)
	require.Equal(t, list, now)
	require.Equal(t, 4, mcptest.Starts(dir))
	for _, p := range []*peer{ann, bob} {
		p.do(t.Context(), http.MethodDelete, "")
	}
	requireEnded(t, dir, hostPID(t, c, "a"))
}
