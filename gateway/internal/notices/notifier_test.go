package notices

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
)

// held is what a session holds of a resource.
type held struct{ resource.Name }

func (h *held) Resource() resource.Name { return h.Name }

// Changes that were not read yet are one notification, and answers do not wait for them.
func TestNotifier_coalesces(t *testing.T) {
	n := New[*held]()
	n.ReportLists(listing.AllLists)
	require.Nil(t, n.Next(), "the session has not begun")
	n.StartSession()
	one := &held{resource.Name{Server: "a", URI: "file:///x"}}
	require.True(t, n.Subscribe(one, "file:///x"))
	require.False(t, n.Subscribe(&held{resource.Name{Server: "a", URI: "file:///x"}}, "file:///x"))
	n.SetLogLevel(0)
	for i := range 1000 {
		n.ReportLists(listing.ToolList)
		n.ReportUpdate("a", "file:///x", nil)
		n.ReportUpdate("a", "file:///x/part", nil)
		n.ReportUpdate("a", "file:///y", nil)
		n.ReportUpdate("a", "file:///xy", nil)
		n.ReportUpdate("b", "file:///x", nil)
		n.ReportLog(mcpvisor.LogMessage{Level: "info", Text: fmt.Sprint(i)})
	}
	n.ReportLists(listing.PromptList)
	var got []string
	for m := n.Next(); m != nil; m = n.Next() {
		r := m.(*jsonrpc.Request)
		got = append(got, r.Method+" "+string(r.Params))
	}
	require.Equal(t, []string{
		"notifications/tools/list_changed {}",
		"notifications/prompts/list_changed {}",
		`notifications/resources/updated {"uri":"file:///x"}`,
		`notifications/resources/updated {"uri":"file:///x/part"}`,
	}, got[:4])
	require.Len(t, got, 4+MaxLogs)
	require.Equal(t, `notifications/message {"level":"info","data":999}`, got[len(got)-1], "the oldest messages are dropped")
	require.Equal(t, []*held{one}, n.Close())
	require.False(t, n.Subscribe(&held{resource.Name{Server: "a", URI: "file:///z"}}, "file:///z"))
}

// A peer of 2026-07-28 reads the lists before it listens. What changes between is not lost.
func TestNotifier_reports_what_changed_before_it_was_asked_to(t *testing.T) {
	n := New[*held]()
	n.ReportLists(listing.ToolList | listing.PromptList)
	require.Nil(t, n.Next())
	first := &Listener[*held]{Lists: listing.ToolList | listing.ResourceList}
	require.True(t, n.Listen(first))
	require.Equal(t, "notifications/tools/list_changed", n.Next().(*jsonrpc.Request).Method)
	require.Nil(t, n.Next())
	require.True(t, n.Listen(&Listener[*held]{Lists: listing.AllLists}))
	require.Equal(t, "notifications/prompts/list_changed", n.Next().(*jsonrpc.Request).Method)
	require.Nil(t, n.Next(), "the first listener has heard of the tools")
}

// A part of a resource continues with a path, a query or a fragment.
func TestIsPartOf(t *testing.T) {
	for _, uri := range []string{"mem://a", "mem://a/b", "mem://a?b", "mem://a#b"} {
		require.True(t, isPartOf(uri, "mem://a"), uri)
	}
	for _, uri := range []string{"mem://ab", "mem://", "mem://b/a", ""} {
		require.False(t, isPartOf(uri, "mem://a"), uri)
	}
	require.True(t, isPartOf("file:///folder/file", "file:///folder/"))
}

// Updates and log messages that no peer reads take bounded memory, and none of what was
// subscribed to is forgotten.
func TestNotifier_bounds(t *testing.T) {
	n := New[*held]()
	require.True(t, n.Subscribe(&held{resource.Name{Server: "a", URI: "file:///"}}, "file:///"))
	n.SetLogLevel(0)
	for i := range 20_000 {
		n.ReportUpdate("a", fmt.Sprintf("file:///%d", i), nil)
		n.ReportLog(mcpvisor.LogMessage{Level: "info", Text: strings.Repeat("x", i%10_000)})
	}
	require.LessOrEqual(t, n.partBytes, maxPartBytes)
	require.LessOrEqual(t, len(n.session.updated), maxPartBytes/partCost+1)
	require.LessOrEqual(t, n.logBytes, MaxLogBytes+MaxLogs*logCost)
	require.Contains(t, n.session.updated, "file:///", "what has no room counts as an update of all")
	for n.Next() != nil {
	}
	require.Zero(t, n.partBytes)
	require.Zero(t, n.logBytes)
	require.Empty(t, n.session.waiting)
	l := &Listener[*held]{URIs: map[string]*held{"file:///": {resource.Name{Server: "a", URI: "file:///"}}}}
	require.True(t, n.Listen(l))
	n.ReportUpdate("a", "file:///x", nil)
	require.Positive(t, n.partBytes)
	n.Leave(l)
	for n.Next() != nil {
	}
	require.Zero(t, n.partBytes)
}

// After an unsubscribe no update of the resource follows, whether of all of it or a part. Those
// of another subscription stay.
func TestNotifier_unsubscribe_drops_updates_that_wait(t *testing.T) {
	n := New[*held]()
	for _, uri := range []string{"x:a", "x:a/b", "x:a2", "x:c/"} {
		require.True(t, n.Subscribe(&held{resource.Name{Server: "s", URI: uri}}, uri))
	}
	require.True(t, n.Subscribe(&held{resource.Name{Server: "s", URI: "x:a"}}, "mcpvisor://s/x:a"))
	for _, uri := range []string{"x:a", "x:a/1", "x:a/b/2", "x:a2", "x:c/3"} {
		n.ReportUpdate("s", uri, nil)
	}
	for _, uri := range []string{"x:a", "mcpvisor://s/x:a", "x:c/", "x:never"} {
		n.Unsubscribe(uri)
	}
	require.Len(t, n.session.waiting, len(n.session.updated))
	var sent []string
	for m := n.Next(); m != nil; m = n.Next() {
		var params struct{ URI string }
		require.NoError(t, json.Unmarshal(m.(*jsonrpc.Request).Params, &params))
		sent = append(sent, params.URI)
	}
	require.Equal(t, []string{"x:a/b/2", "x:a2"}, sent)
	require.Zero(t, n.partBytes)
	require.Empty(t, n.session.waiting)
}

// Updates that stand for all resources of a server say nothing of those that are not offered.
func TestNotifier_reportUpdates_offered(t *testing.T) {
	n := New[*held]()
	for _, uri := range []string{"x:open", "x:closed"} {
		s := &held{}
		s.Server, s.URI = "s", uri
		require.True(t, n.Subscribe(s, uri))
	}
	for _, server := range []string{"", "s"} {
		n.ReportUpdates(server, func(_, uri string) bool { return uri == "x:open" })
		require.Contains(t, string(n.Next().(*jsonrpc.Request).Params), "x:open")
		require.Nil(t, n.Next())
	}
}

// Ended interactions that no peer reads are bounded, and the newest stay.
func TestNotifier_elicited(t *testing.T) {
	n := New[*held]()
	for i := range 3 * maxElicited {
		n.ReportElicited(fmt.Sprint(i))
	}
	for i := range maxElicited {
		require.JSONEq(t, fmt.Sprintf(`{"elicitationId":"%d"}`, 2*maxElicited+i), string(n.Next().(*jsonrpc.Request).Params))
	}
	require.Nil(t, n.Next())
}
