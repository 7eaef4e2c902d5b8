package attach

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// maxEventLine is the longest line of an event stream, in bytes.
const maxEventLine = 16 << 20

// Events calls each for every event after number after, in order, until the context ends or
// the stream does, and returns why. It returns nil if each returned false. Kinds select
// events; none means all.
func (c *Client) Events(ctx context.Context, after uint64, each func(api.Event) bool, kinds ...mcpvisor.EventKind) error {
	query := url.Values{"after": {strconv.FormatUint(after, 10)}}
	for _, kind := range kinds {
		query.Add("kind", string(kind))
	}
	response, err := c.do(ctx, http.MethodGet, "api/events/stream?"+query.Encode(), nil)
	if err != nil {
		return c.lost(ctx, http.MethodGet, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		data, err := io.ReadAll(response.Body)
		if err != nil {
			return c.lost(ctx, http.MethodGet, err)
		}
		return errorOf(response, data)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxEventLine)
	named := false // the event has a name: it is about the stream
	for lines.Scan() {
		line := lines.Bytes()
		data, isData := bytes.CutPrefix(line, []byte("data: "))
		switch {
		case len(line) == 0:
			named = false
		case bytes.HasPrefix(line, []byte("event:")):
			named = true
		case isData && !named:
			var event api.Event
			if err := json.Unmarshal(data, &event); err != nil {
				return err
			}
			if !each(event) {
				return nil
			}
		}
	}
	err = lines.Err()
	if err == nil {
		err = io.EOF
	}
	return c.lost(ctx, http.MethodGet, err)
}
