package attach

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
)

// CallOptions are how a tool is called.
type CallOptions struct {
	// Timeout bounds the time without progress; 0 means the server's own timeout.
	Timeout time.Duration
	// Progress is called for each report of the server, in the goroutine of the call; nil
	// asks for none.
	Progress func(mcpvisor.Progress)
	// Key names the call in the journal; empty names none.
	Key string
	// Dry sends nothing: the error says why the tool cannot be called, and is ErrCanceled if it can.
	Dry bool
}

// CallTool calls a tool. The result is what the server sent, byte for byte.
func (c *Client) CallTool(ctx context.Context, tool string, arguments json.RawMessage, o CallOptions) (json.RawMessage, error) {
	query := url.Values{"tool": {tool}}
	if o.Timeout != 0 {
		query.Set("timeout", o.Timeout.String())
	}
	if o.Key != "" {
		query.Set("key", o.Key)
	}
	if o.Dry {
		query.Set("dry", "true")
	}
	if o.Progress != nil {
		query.Set("progress", "true")
	}
	response, err := c.do(ctx, http.MethodPost, "run/call?"+query.Encode(), arguments)
	if err != nil {
		return nil, c.lost(ctx, http.MethodPost, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusBadRequest {
		data, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, c.lost(ctx, http.MethodPost, err)
		}
		return nil, errorOf(response, data)
	}
	for messages := json.NewDecoder(response.Body); ; {
		var m control.CallMessage
		if err := messages.Decode(&m); err != nil {
			return nil, c.lost(ctx, http.MethodPost, err)
		}
		switch {
		case m.Progress != nil && o.Progress != nil:
			o.Progress(*m.Progress)
		case m.Error != nil:
			return nil, &Error{*m.Error}
		case m.Result != nil:
			return m.Result, nil
		case m.Progress == nil:
			return nil, fmt.Errorf("mcpvisor run sent an answer that this program does not understand; restart it, or use --fresh")
		}
	}
}
