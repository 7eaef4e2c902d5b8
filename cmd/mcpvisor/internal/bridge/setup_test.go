package bridge

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// writer is a connection that is only written to.
type writer struct{ write func(line string) }

func (w writer) Write(p []byte) (int, error) {
	w.write(string(p))
	return len(p), nil
}

func (writer) Read([]byte) (int, error) { panic("nobody reads it") }
func (writer) Close() error             { return nil }

// A call that the host cancels while those before it are sent to a new connection is not sent.
func TestBridge_canceled_before_it_is_sent(t *testing.T) {
	b := &bridge{requests: map[string]*request{}}
	parsed := func(line string) message {
		m, err := parseObject([]byte(line))
		require.NoError(t, err)
		return m
	}
	b.admit(parsed(ask(1, "tools/call", `{"name":"x"}`)))
	b.admit(parsed(ask(2, "tools/call", `{"name":"y"}`)))
	var sent []string
	canceled := make(chan struct{})
	b.flush(&link{number: 1, ReadWriteCloser: writer{func(line string) {
		sent = append(sent, line)
		if len(sent) > 1 {
			return
		}
		go func() {
			defer close(canceled)
			b.notify(parsed(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`))
		}()
		for taken := false; !taken; runtime.Gosched() { // it waits to be written itself
			b.mu.Lock()
			taken = b.requests["2"] == nil
			b.mu.Unlock()
		}
	}}})
	<-canceled
	require.Contains(t, sent[0], `"name":"x"`)
	require.NotContains(t, strings.Join(sent, ""), `"name":"y"`)
}
