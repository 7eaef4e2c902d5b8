package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// MaxArguments bounds the arguments of a call, in bytes.
const MaxArguments = 64 << 20

// CallMessage is one value of the answer to POST /run/call. Exactly one member is set. The
// last value has the result or the error; those before it are progress.
type CallMessage struct {
	Progress *mcpvisor.Progress `json:"progress,omitempty"`
	// Result is what the server sent, byte for byte.
	Result json.RawMessage  `json:"result,omitempty"`
	Error  *api.ErrorDetail `json:"error,omitempty"`
}

// postCall calls the tool ?tool=NAME with the body as arguments. ?timeout=DURATION replaces
// the server's own timeout of calls, ?key=KEY names the call, and with ?progress=true the answer has the progress
// that the server reports. With ?dry=true nothing is sent: the error says why the tool cannot be called,
// and is ErrCanceled if it can. The answer is a sequence of [CallMessage]. The call ends with the
// request.
func (h *Handler) postCall(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	opts := []facade.CallOption{facade.WithClientName("mcpvisor call")}
	body := h.bodies.NewBody(w, r, MaxArguments)
	defer body.Release()
	arguments, err := io.ReadAll(body)
	if text := query.Get("timeout"); text != "" && err == nil {
		var timeout time.Duration
		timeout, err = time.ParseDuration(text)
		opts = append(opts, facade.WithTimeout(timeout))
	}
	if err != nil {
		writeError(w, bodyError(err))
		return
	}
	if key := query.Get("key"); key != "" {
		opts = append(opts, facade.WithKey(key))
	}
	w.Header().Set("Content-Type", "application/json")
	stream := http.NewResponseController(w)
	if query.Get("progress") == "true" {
		opts = append(opts, facade.WithProgress(func(p mcpvisor.Progress) {
			if data, err := json.Marshal(CallMessage{Progress: &p}); err == nil {
				jsonanswer.SetDeadline(w, len(data))
				_, _ = w.Write(append(data, '\n')) // the end of the request ends the call
				_ = stream.Flush()
				_ = stream.SetWriteDeadline(time.Time{}) // over HTTP/2 it would end the answer
			}
		}))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if query.Get("dry") == "true" {
		cancel()
	}
	result, err := h.client.CallToolRaw(ctx, query.Get("tool"), arguments, opts...)
	body.Release()
	if err == nil && len(result) > jsonanswer.SmallBytes {
		if h.answers.Take(len(result)) {
			defer h.answers.Return(len(result))
		} else {
			err = &mcpvisor.Error{Op: "call " + query.Get("tool"), Kind: mcpvisor.KindOverloaded, Outcome: mcpvisor.OutcomeAnswered, Cause: jsonanswer.ErrNoRoom}
		}
	}
	jsonanswer.SetDeadline(w, len(result))
	if err != nil {
		detail := detailOf(err)
		if data, err := json.Marshal(CallMessage{Error: &detail}); err == nil {
			_, _ = w.Write(data)
		}
		return
	}
	// json.Marshal would change the spaces of the result.
	for _, part := range [][]byte{[]byte(`{"result":`), result, []byte(`}`)} {
		_, _ = w.Write(part) //nolint:gosec // JSON for a command; a command that has ended needs no answer
	}
}
