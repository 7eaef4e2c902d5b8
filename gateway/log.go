package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// loggingLevels are the severities of RFC 5424, lowest first.
var loggingLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// noLogs is above every level. It applies until the session sets one.
const noLogs = 8

// setLevelTimeout bounds the requests to the servers. One that does not answer keeps its
// level.
const setLevelTimeout = 5 * time.Second

// setLoggingLevel answers logging/setLevel: it sets the level of every registered server that is offered.
// Those that refuse it, or have no log messages, do not matter. A session sets one level at a time.
func (c *connection) setLoggingLevel(r *request, p *params) (any, error) {
	level := slices.Index(loggingLevels, p.Level)
	if level < 0 {
		return nil, message.InvalidParams(fmt.Sprintf("unknown log level %s; use one of %v", message.Quote(p.Level), loggingLevels))
	}
	c.notify.setLogLevel(level)
	levelling := c.placesOf().levelling
	if err := r.acquire(levelling); err != nil {
		return nil, err
	}
	defer func() { <-levelling }()
	ctx, cancel := context.WithTimeout(r.ctx, setLevelTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, server := range c.view.ServerNames() {
		if !c.isCopied(server) { // a copy that starts later gets the level, too
			all.Go(func() { _ = c.client.SetLoggingLevel(ctx, server, p.Level) })
		}
	}
	if t := c.tenant.Load(); t != nil {
		for server, copied := range t.copies() {
			all.Go(func() { _ = copied.SetLoggingLevel(ctx, server, p.Level) })
		}
	}
	all.Wait()
	return struct{}{}, nil
}

// logParams are the params of notifications/message. The client has made text of the data.
func logParams(m mcpvisor.LogMessage) any {
	data, err := json.Marshal(m.Text)
	if json.Valid([]byte(m.Text)) {
		data, err = []byte(m.Text), nil
	}
	if err != nil {
		data = []byte("null")
	}
	return struct {
		Level  string          `json:"level"`
		Logger string          `json:"logger,omitempty"`
		Data   json.RawMessage `json:"data"`
	}{m.Level, m.Logger, data}
}
