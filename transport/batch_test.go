package transport

import (
	"io"
	"strings"
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// TestWireBatch: every message of a batch counts, whatever stands beside it. A
// batch in a batch is junk.
func TestWireBatch(t *testing.T) {
	p := newPeer(t, osPipe, 8<<20)
	one, two := p.ask(t.Context(), Request{Method: "m"}), p.ask(t.Context(), Request{Method: "m"})
	a, b := p.read().ID, p.read().ID
	long := `"` + strings.Repeat("x", 3*LargeMessage) + `"`
	p.say(` [ 7 , {"id":%d,"result":%s},null, [{"id":%d,"result":"nested"}],"text", {"a":1} ,{"jsonrpc":"2.0","method":"notifications/of/our/own"},{"id":%d,"result":%s} ] `,
		a, long, b, b, long)
	require.ElementsMatch(t, []outcome{{result: long}, {result: long}}, []outcome{<-one, <-two})
	m, err := p.control.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "notifications/of/our/own", m.(*sdkrpc.Request).Method)
	require.Equal(t, mcpvisor.Discarded{Malformed: 5}, p.noise.Counts())
}

// TestWireBatchThatIsNone: half a batch is as good as none.
func TestWireBatchThatIsNone(t *testing.T) {
	for _, said := range []string{`[{"jsonrpc":"2.0","method":"m"}`, `[{"jsonrpc":"2.0","method":"m"}{}]`, `[{"jsonrpc":"2.0","method":"m"},]`, `[]x`} {
		w := newWire(NewLifetime(), strings.NewReader(""), io.Discard, 1<<20)
		w.receive([]byte(said))
		require.Equal(t, mcpvisor.Discarded{Malformed: 1}, w.noise.Counts(), said)
		require.Empty(t, w.control.inbox, said)
	}
}

// TestBatchesCostNoMemory: a batch of trifles, as long as a line may be, is not
// built in memory, where it would take ten times its length.
func TestBatchesCostNoMemory(t *testing.T) {
	const items = 1 << 16
	batch := []byte("[" + strings.Repeat("1,", items-1) + "1]")
	nested := []byte("[" + strings.Repeat("[1],", items-1) + "[1]]")
	w := newWire(NewLifetime(), strings.NewReader(""), io.Discard, 1<<20)
	require.LessOrEqual(t, testing.AllocsPerRun(1, func() { w.receive(batch); w.receive(nested) }), 10.0)
	require.EqualValues(t, 2*2*items, w.noise.Counts().Malformed)

	s := new(httpSession)
	require.LessOrEqual(t, testing.AllocsPerRun(1, func() {
		_, found, f := s.handleMessage(batch, 1, true)
		require.False(t, found)
		require.Nil(t, f)
		_, _, _ = s.handleMessage(nested, 1, true)
	}), 10.0)
	require.EqualValues(t, 2*2*items, s.noise.Malformed.Load())
}

// TestHTTPBatch: an error without id is meant for a call only if it is alone.
func TestHTTPBatch(t *testing.T) {
	const orphan = `{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`
	for name, c := range map[string]struct {
		text          string
		result, error string
		noise         uint64 // junk and unmatched
	}{
		"answer":            {`[{"id":1,"result":"a"}]`, `"a"`, "", 0},
		"among others":      {` [ {"id":2,"result":"b"} , 7, {"id":1,"result":"a"} ] `, `"a"`, "", 2},
		"nested":            {`[[{"id":1,"result":"a"}]]`, "", "", 1},
		"orphan":            {`[` + orphan + `]`, "", `{"code":1,"message":"m"}`, 0},
		"orphan and others": {`[` + orphan + `,{"id":1,"result":"a"}]`, `"a"`, "", 1},
		"empty":             {`[]`, "", "", 0},
		"cut":               {`[{"id":1,"result":"a"}`, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(httpSession)
			got, found, f := s.handleMessage([]byte(strings.TrimSpace(c.text)), 1, true)
			require.Nil(t, f)
			require.Equal(t, c.result+c.error != "", found)
			require.Equal(t, c.result, string(got.result))
			require.Equal(t, c.error, string(got.errorMember))
			require.Equal(t, c.noise, s.noise.Malformed.Load()+s.noise.Unmatched.Load())
		})
	}
}
