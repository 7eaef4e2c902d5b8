package transport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// broad is an object of n small objects: 8 bytes each as text, 400 as a map.
func broad(n int) string { return `{"m":[` + strings.Repeat(`{"a":0},`, n) + `0]}` }

func TestRefuseBroad(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		require.NoError(t, CheckParams([]byte(broad(1000))))
	})
	t.Run("large", func(t *testing.T) {
		require.NoError(t, CheckParams([]byte(`{"x":"`+strings.Repeat("x", 32<<20)+`"}`)))
	})
	t.Run("broad", func(t *testing.T) {
		require.ErrorContains(t, CheckParams([]byte(broad(30_000))), "the parameters hold more than 50000 values")
	})
	t.Run("deep", func(t *testing.T) {
		deep := `{"x":"` + strings.Repeat("x", 64<<10) + `","y":` + strings.Repeat("[", 501) + strings.Repeat("]", 501) + `}`
		require.ErrorContains(t, CheckParams([]byte(deep)), "levels")
	})
}

// The way of the modern era: what is wanted in the answer to a call.
func TestQuestionFromBroad(t *testing.T) {
	_, err := newResponder().answerInput(t.Context(), inputRequest{key: "k", method: methodElicit,
		params: []byte(`{"message":"?","requestedSchema":` + broad(30_000) + `}`)})
	require.ErrorContains(t, err, "the parameters hold more than 50000 values")
}

func TestNoticeBroad(t *testing.T) {
	n := new(Notifications)
	n.OnNotice(func(Notice) { t.Error("told") })
	long := []byte(`{"notifications":{"resourceSubscriptions":[""` + strings.Repeat(`,""`, 400_000) + `]}}`)
	require.Equal(t, Malformed, n.Handle([]byte(`"notifications/subscriptions/acknowledged"`), long))
}

// Marks in headers are not looked for in a schema that holds too much.
func TestMarksBroad(t *testing.T) {
	schema := `{"type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"}` + strings.Repeat(`,"y":{}`, 10_000) + `}}`
	require.ErrorContains(t, checkHeaderParams([]byte(schema)), "more than 10000 values")
	var p headerParams
	p.learn([]byte(`{"tools":[{"name":"a","inputSchema":`+schema+`},{"name":"b","inputSchema":{"properties":{"x":{"type":"string","x-mcp-header":"X"}}}}]}`), true, 10)
	require.Len(t, p.tools, 1)
}

// A server hears why its question was refused, and may go on.
func TestPipedBroadQuestion(t *testing.T) {
	p := newPartner(t, false)
	p.open(Handlers{ElicitForm: atOnce})
	p.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}`, broad(30_000))
	m := p.next("")
	require.Equal(t, `"q"`, string(m.ID))
	require.Contains(t, string(m.Error), "the parameters hold more than 50000 values")
	p.say(`{"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
	require.NotEmpty(t, p.next("").Result)
}
