package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
)

// Answers and notifications take turns: a peer that reads slowly gets both.
func TestOutbox_alternates(t *testing.T) {
	out := newOutbox(defaultLimits(), newNotifier())
	out.notify.setLogLevel(0)
	const each = 10
	for i := range each {
		r := newRequest(t.Context(), numbered("ping", "")(i), out)
		require.True(t, out.addAnswer(r, &jsonrpc.Response{ID: r.ID, Result: json.RawMessage("{}")}))
		out.notify.reportLog(mcpvisor.LogMessage{Level: "info", Text: "x"})
	}
	for range each {
		answers := 0
		for range 2 {
			m, ended := out.next()
			require.NotNil(t, m)
			if ended != nil {
				answers++
			}
		}
		require.Equal(t, 1, answers, "one of two is an answer")
	}
	m, _ := out.next()
	require.Nil(t, m)
}

// The progress of a canceled request is not sent, though the request has not ended yet.
func TestOutbox_drops_progress_of_a_canceled_request(t *testing.T) {
	out := newOutbox(defaultLimits(), newNotifier())
	report := func(id int) *request {
		r := newRequest(t.Context(), numbered("tools/call", "")(id), out)
		r.token = fmt.Append(nil, id)
		out.addProgress(r, mcpvisor.Progress{Progress: 1})
		return r
	}
	report(1).canceled.Store(true)
	report(2)
	m, _ := out.next()
	require.JSONEq(t, `{"progressToken":2,"progress":1}`, string(m.(*jsonrpc.Request).Params))
	m, _ = out.next()
	require.Nil(t, m)
}

// After an unsubscribe no update of the resource follows, whether of all of it or a part. Those
// of another subscription stay.
func TestUnsubscribe_drops_updates_that_wait(t *testing.T) {
	n := newNotifier()
	for _, uri := range []string{"x:a", "x:a/b", "x:a2", "x:c/"} {
		require.True(t, n.subscribe(&subscription{Name: resource.Name{Server: "s", URI: uri}}, uri))
	}
	require.True(t, n.subscribe(&subscription{Name: resource.Name{Server: "s", URI: "x:a"}}, "mcpvisor://s/x:a"))
	for _, uri := range []string{"x:a", "x:a/1", "x:a/b/2", "x:a2", "x:c/3"} {
		n.reportUpdate("s", uri)
	}
	for _, uri := range []string{"x:a", "mcpvisor://s/x:a", "x:c/", "x:never"} {
		n.unsubscribe(uri)
	}
	require.Len(t, n.session.waiting, len(n.session.updated))
	var sent []string
	for m := n.next(); m != nil; m = n.next() {
		var params struct{ URI string }
		require.NoError(t, json.Unmarshal(m.(*jsonrpc.Request).Params, &params))
		sent = append(sent, params.URI)
	}
	require.Equal(t, []string{"x:a/b/2", "x:a2"}, sent)
	require.Zero(t, n.partBytes)
	require.Empty(t, n.session.waiting)
}

// A notification that is too long is not read: here a cancellation, which has no effect.
func TestNotification_that_is_too_long(t *testing.T) {
	limits := Limits{}.withDefaults()
	q := newRequests(&limits, func(*request) {}, func() {})
	c := &connection{ctx: t.Context()}
	c.made.Store(q)
	call := newRequest(t.Context(), numbered("tools/call", "")(0), nil)
	require.NoError(t, q.admit(t.Context(), call))
	cancellation := func(bytes int) *jsonrpc.Request {
		const text = `{"requestId":1,"reason":""}`
		return &jsonrpc.Request{Method: "notifications/cancelled",
			Params: json.RawMessage(strings.Replace(text, `""`, `"`+strings.Repeat("x", bytes-len(text))+`"`, 1))}
	}
	c.receiveNotification(cancellation(maxNotificationBytes + 1))
	require.False(t, call.canceled.Load())
	require.NoError(t, call.ctx.Err())
	c.receiveNotification(cancellation(maxNotificationBytes))
	require.True(t, call.canceled.Load())
	require.Error(t, call.ctx.Err())
}
