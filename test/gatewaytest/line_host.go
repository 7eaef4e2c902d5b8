package gatewaytest

import (
	"bufio"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// LineHost is a host that writes and reads lines without an SDK.
type LineHost struct {
	T   *testing.T
	In  io.Writer     // to the gateway
	Out *bufio.Reader // from the gateway
	// Why says more when the stream ends; may be nil.
	Why func() string
}

// Answer is a line of the gateway that is an answer.
type Answer struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

// Write writes text as it is.
func (h *LineHost) Write(text string) error {
	_, err := io.WriteString(h.In, text)
	return err
}

// Send writes a line.
func (h *LineHost) Send(line string) {
	h.T.Helper()
	require.NoError(h.T, h.Write(line+"\n"))
}

// Next reads the next answer.
func (h *LineHost) Next() (a Answer) {
	h.T.Helper()
	for {
		line, err := h.Out.ReadBytes('\n')
		why := ""
		if err != nil && h.Why != nil {
			why = h.Why()
		}
		require.NoError(h.T, err, "%s", why)
		var m struct {
			Answer
			Method string
		}
		require.NoError(h.T, json.Unmarshal(line, &m), "%.1000s", line)
		if m.Method == "" {
			return m.Answer
		}
	}
}

// Exchange writes a request and returns its answer, which must be the next one.
func (h *LineHost) Exchange(line string) Answer {
	h.T.Helper()
	h.Send(line)
	return h.Next()
}

// SendWhileReading writes lines while the answers are read, and ends with an answer to a ping: the session
// continues.
func (h *LineHost) SendWhileReading(lines func(send func(line string)), answered func(Answer)) {
	h.T.Helper()
	written := make(chan error, 1)
	go func() {
		var failed error
		lines(func(line string) {
			if failed == nil {
				failed = h.Write(line + "\n")
			}
		})
		if failed == nil {
			failed = h.Write(`{"jsonrpc":"2.0","id":"last","method":"ping"}` + "\n")
		}
		written <- failed
	}()
	for {
		a := h.Next()
		if string(a.ID) == `"last"` {
			require.NoError(h.T, <-written)
			return
		}
		answered(a)
	}
}
