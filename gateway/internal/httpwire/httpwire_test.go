package httpwire

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// deadlines counts how often a peer gets time to read.
type deadlines struct {
	*httptest.ResponseRecorder
	set int
}

// SetWriteDeadline implements what an http.ResponseController looks for.
func (d *deadlines) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() {
		d.set++
	}
	return nil
}

// A large answer over HTTP gets WriteTimeout for each of its pieces: who reads slowly is not deaf.
func TestExchange_large_answers_get_time(t *testing.T) {
	body := []byte(`"` + strings.Repeat("x", 20*message.PieceBytes) + `"`)
	for name, write := range map[string]func(x *Exchange) bool{
		"JSON":   func(x *Exchange) bool { return x.JSON(http.StatusOK, message.Encoded{Body: body}) },
		"stream": func(x *Exchange) bool { return x.Event(&jsonrpc.Response{Result: body}, "") },
	} {
		t.Run(name, func(t *testing.T) {
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			x := New(w, Limits{WriteTimeout: time.Minute})
			require.True(t, write(x))
			require.GreaterOrEqual(t, w.set, 20)
			require.Contains(t, w.Body.String(), string(body))
		})
	}
}

// The answers of a batch are one array.
func TestExchange_batch(t *testing.T) {
	for n, want := range []string{`[{"a":0}]`, `[{"a":0},{"a":1}]`} {
		var answers []message.Encoded
		for i := range n + 1 {
			answers = append(answers, message.Encoded{Head: []byte(`{"a":`), Body: fmt.Append(nil, i), Tail: []byte("}")})
		}
		w := httptest.NewRecorder()
		require.True(t, New(w, Limits{WriteTimeout: time.Minute}).Batch(answers))
		require.Equal(t, want, w.Body.String())
	}
}
